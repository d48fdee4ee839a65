"""The reference page says what a worker does."""

from pathlib import Path

from odradek.connect.reference import described, reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "connect.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.connect.reference docs/reference/connect.md"
    )


def test_every_path_of_kafka_connect_is_there() -> None:
    paths = {
        f"{method.upper()} {path}"
        for path, operations in described()["paths"].items()
        for method in operations
    }
    one = "/connectors/{name}"
    assert paths >= {
        f"{method} {path}"
        for methods, path in [
            ("GET", "/"),
            ("GET", "/health"),
            ("GET POST", "/connectors"),
            ("GET DELETE", one),
            ("GET PUT PATCH", f"{one}/config"),
            ("GET", f"{one}/status"),
            ("POST", f"{one}/restart"),
            ("PUT", f"{one}/pause"),
            ("PUT", f"{one}/resume"),
            ("PUT", f"{one}/stop"),
            ("GET", f"{one}/tasks"),
            ("GET", f"{one}/tasks/{{task}}/status"),
            ("POST", f"{one}/tasks/{{task}}/restart"),
            ("GET", f"{one}/topics"),
            ("PUT", f"{one}/topics/reset"),
            ("GET PATCH DELETE", f"{one}/offsets"),
            ("GET", "/connector-plugins"),
            ("GET", "/connector-plugins/{plugin}/config"),
            ("PUT", "/connector-plugins/{plugin}/config/validate"),
            ("GET", "/admin/loggers"),
            ("GET PUT", "/admin/loggers/{logger}"),
        ]
        for method in methods.split()
    }
