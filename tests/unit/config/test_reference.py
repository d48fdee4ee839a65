from pathlib import Path

from odradek.config.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.config.reference docs/reference/settings.md"
    )
