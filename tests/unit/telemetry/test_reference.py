from pathlib import Path

from odradek.telemetry.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.telemetry.reference docs/reference/metrics.md"
    )
