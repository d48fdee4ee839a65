"""The table of a service's settings, for its reference page."""

from collections.abc import Container, Iterator

from odradek.services.settings import ServiceSettings


def settings_table(
    kind: type[ServiceSettings], names: Container[str] | None = None
) -> Iterator[str]:
    """Yields the lines of a table in Markdown, of all settings or of those with these names."""
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    for name, default, doc in sorted(kind.describe()):
        if names is None or name in names:
            yield f"| `{name}` | {shown_default(default)} | {cell(doc)} |"


def shown_default(default: object) -> str:
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{text}`" if text else ""


def cell(text: object) -> str:
    """Returns a text for a cell: its characters mean nothing in Markdown."""
    return str(text).replace("|", "\\|").replace("*", "\\*")
