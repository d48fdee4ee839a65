"""Draws docs/demo.svg, the picture of the running demo, from what scripts/demo prints.

    script -qec scripts/demo demo.txt       runs the demo, and keeps what it prints
    python scripts/draw_demo.py demo.txt    writes the picture

Only some steps are drawn, so that the picture fits a page. Lines that are too long are cut off.
"""

import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
STEPS = (1, 5, 6, 8)

_COLUMNS = 104
_CHARACTER, _LINE, _MARGIN = 7.4, 18, 16
# Control sequences of terminals: styles, clearing, and going up by some lines.
_CONTROL = re.compile(r"\x1b\[(\d*)([A-Za-z])")
_STEP = re.compile(r"(\d+)\. ")
_TEMPORARY = re.compile(r"/tmp/tmp\.\w+")  # noqa: S108 - what mktemp makes
_STYLES = {"bold": "#ffffff", "dim": "#8b949e", "plain": "#d0d7de"}


def screen(typescript: str) -> list[tuple[str, str]]:
    """Returns the lines that a terminal shows at the end, each with its style."""
    lines: list[tuple[str, str]] = []
    for raw in typescript.replace("\r\n", "\n").split("\n"):
        text, style = raw, "plain"
        for match in _CONTROL.finditer(raw):
            number, kind = match[1], match[2]
            if kind == "F":
                del lines[-int(number or 1) :]
            elif kind == "m" and number in {"1", "2"}:
                style = "bold" if number == "1" else "dim"
        # A carriage return starts the line again: progress that was overwritten.
        text = _CONTROL.sub("", text.rpartition("\r")[2] if "\r" in text else text)
        lines.append((_TEMPORARY.sub("~", text).expandtabs(8).rstrip(), style))
    return lines


def chosen(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the lines of the steps that are drawn."""
    kept: list[tuple[str, str]] = []
    is_kept = False
    for text, style in lines:
        if style == "bold":
            step = _STEP.match(text)
            is_kept = step is not None and int(step[1]) in STEPS
            if is_kept and kept and kept[-1][0]:
                kept.append(("", "plain"))
        if is_kept:
            kept.append((text if len(text) <= _COLUMNS else f"{text[: _COLUMNS - 1]}…", style))
    return kept


def draw(lines: list[tuple[str, str]]) -> str:
    width = round(_COLUMNS * _CHARACTER + 2 * _MARGIN)
    height = len(lines) * _LINE + 2 * _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.3"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        "<title>scripts/demo</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
    ]
    for number, (text, style) in enumerate(lines, 1):
        if not text:
            continue
        weight = ' font-weight="bold"' if style == "bold" else ""
        place = f'x="{_MARGIN}" y="{_MARGIN + number * _LINE - 5}" fill="{_STYLES[style]}"'
        shown = html.escape(text, quote=False)
        parts.append(f'<text {place}{weight} xml:space="preserve">{shown}</text>')
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    PICTURE.write_text(draw(chosen(screen(Path(sys.argv[1]).read_bytes().decode()))))


if __name__ == "__main__":
    main()
