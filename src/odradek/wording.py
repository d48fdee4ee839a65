"""Wording of messages and logs."""

import os
import shlex
import sys


def counted(count: int, singular: str, plural: str | None = None, *, spec: str = "") -> str:
    """Returns a number with its noun: `1 partition`, `2 partitions`.

    `plural` is used for any number but 1; by default it is `singular` with an s. Both may contain a
    verb, as in `counted(left, "record is", "records are")`. `spec` formats the number.
    """
    return f"{count:{spec}} {singular if count == 1 else plural or f'{singular}s'}"


def kind_of(value: object) -> str:
    """Returns the type of a value that was given by mistake, as in `must be a str, not int`."""
    return "None" if value is None else type(value).__name__


def install_line(extra: str) -> str:
    """Returns the command that installs an extra of this package into the running environment:
    from the directory that it was installed from, or else from the package index."""
    package = _source_directory() or "odradek"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(f'{package}[{extra}]')}"


def _source_directory() -> str | None:
    """Returns the clone that this package runs in or was installed from."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.exists(os.path.join(here, "pyproject.toml")):
        return here
    import json  # noqa: PLC0415 - only for a message, and the broker starts quickly
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    try:
        origin = json.loads(distribution("odradek").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    address = urlsplit(origin.get("url", ""))
    path = unquote(address.path)
    return path if address.scheme == "file" and os.path.isdir(path) else None
