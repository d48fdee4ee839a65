from pathlib import Path

from odradek.broker.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "apis.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.broker.reference docs/reference/apis.md"
    )
