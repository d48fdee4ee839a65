"""The reference page says what the service does."""

from pathlib import Path

from odradek.registry.reference import described, reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "registry.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.registry.reference docs/reference/registry.md"
    )


def test_every_path_of_confluents_registry_is_there() -> None:
    paths = {
        f"{method.upper()} {path}"
        for path, operations in described()["paths"].items()
        for method in operations
    }
    assert paths >= {
        f"{method} {path}"
        for methods, path in [
            ("GET POST", "/"),
            ("GET", "/schemas"),
            ("GET", "/schemas/types"),
            ("GET", "/schemas/ids/{id}"),
            ("GET", "/schemas/ids/{id}/schema"),
            ("GET", "/schemas/ids/{id}/subjects"),
            ("GET", "/schemas/ids/{id}/versions"),
            ("GET", "/schemas/guids/{guid}"),
            ("GET", "/schemas/guids/{guid}/ids"),
            ("GET", "/subjects"),
            ("POST DELETE", "/subjects/{subject}"),
            ("GET POST", "/subjects/{subject}/versions"),
            ("GET DELETE", "/subjects/{subject}/versions/{version}"),
            ("GET", "/subjects/{subject}/versions/{version}/schema"),
            ("GET", "/subjects/{subject}/versions/{version}/referencedby"),
            ("GET", "/subjects/{subject}/metadata"),
            ("POST", "/subjects/{subject}/versions/{version}/tags"),
            ("POST", "/compatibility/subjects/{subject}/versions"),
            ("POST", "/compatibility/subjects/{subject}/versions/{version}"),
            ("GET PUT DELETE", "/config"),
            ("GET PUT DELETE", "/config/{subject}"),
            ("GET PUT DELETE", "/mode"),
            ("GET PUT DELETE", "/mode/{subject}"),
            ("GET", "/contexts"),
            ("DELETE", "/contexts/{context}"),
            ("GET", "/v1/metadata/id"),
            ("GET", "/v1/metadata/version"),
        ]
        for method in methods.split()
    }
