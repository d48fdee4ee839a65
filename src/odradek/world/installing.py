"""The command that installs what is missing here."""

import os
import shlex
import sys


def install_line(extra: str) -> str:
    """Returns the command that installs an extra of this package into the running environment:
    from the directory that it was installed from, or else from the package index."""
    package = _source_directory() or "odradek"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(f'{package}[{extra}]')}"


def _source_directory() -> str | None:
    """Returns the clone that this package runs in or was installed from."""
    here = os.path.abspath(__file__)
    for _ in range(4):
        here = os.path.dirname(here)
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
