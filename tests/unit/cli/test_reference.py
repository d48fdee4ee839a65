"""Pages and files that must keep up with the code."""

import re
from pathlib import Path

from odradek.cli.reference import reference
from odradek.config import parse_properties
from odradek.local.serving import settings_from

ROOT = Path(__file__).parents[3]


def test_the_reference_page_is_current() -> None:
    assert (ROOT / "docs/reference/cli.md").read_text() == reference(), (
        "run: python -m odradek.cli.reference docs/reference/cli.md"
    )


def test_the_sample_settings_are_all_known() -> None:
    sample = (ROOT / "config/server.properties").read_text()
    every_line_active = re.sub(r"(?m)^#(?=[a-z.]+=)", "", sample)
    for text in (sample, every_line_active):
        settings = settings_from(parse_properties(text), [])
        assert settings.warnings == ()
        assert settings.without_effect == ()
