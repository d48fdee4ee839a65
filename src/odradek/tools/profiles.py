"""Profiles: the user's clusters by name, in `~/.config/odradek/config.toml`.

    profile = "laptop"                    # used if no other is named

    [profiles.laptop]
    bootstrap.servers = "127.0.0.1:9092"

    [profiles.staging]
    bootstrap.servers = "staging-1:9092,staging-2:9092"
    request.timeout.ms = 60000

    [profiles.secured]
    command-config = "/home/ada/odradek-data/client.properties"

A profile has client properties by Kafka's names, and may name a properties file with more of them,
such as the one that `odradek up --secure` writes. It is named by `--profile`, or else by
ODRADEK_PROFILE. The file is $ODRADEK_CONFIG, or else in $XDG_CONFIG_HOME.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from odradek.tools.failures import CommandFailed

_FILE = "command-config"


class Profile(NamedTuple):
    properties: dict[str, str]
    is_named: bool
    """Whether the user has named it, and not the file."""
    name: str = ""
    file: str | None = None
    """A properties file; the properties of the profile itself win."""


NO_PROFILE = Profile({}, is_named=False)


def config_path() -> str:
    own = os.environ.get("ODRADEK_CONFIG")
    if own:
        return own
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "odradek", "config.toml")


def chosen_profile(named: str | None) -> Profile:
    """Returns the profile of this name, of ODRADEK_PROFILE, or the one that the file chooses."""
    named = named or os.environ.get("ODRADEK_PROFILE") or None
    path = config_path()
    content = _read(path)
    profiles = content.get("profiles", {})
    name = named or content.get("profile")
    if name is None:
        return NO_PROFILE
    if not isinstance(profiles, dict) or not isinstance(profiles.get(name), dict):
        raise CommandFailed(_no_profile(str(name), path, profiles))
    properties = dict(_flat(profiles[name]))
    file = properties.pop(_FILE, None)
    return Profile(
        properties,
        is_named=named is not None,
        name=str(name),
        file=None if file is None else os.path.expanduser(file),
    )


def profile_names() -> list[str]:
    profiles = _read(config_path()).get("profiles", {})
    return sorted(profiles) if isinstance(profiles, dict) else []


def _read(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    from odradek.config.toml_text import parse_toml
    from odradek.config.values import InvalidValue

    try:
        with open(path, encoding="utf-8") as file:
            content = parse_toml(file.read())
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror}") from None
    except (InvalidValue, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} is not TOML: {error}") from None
    unknown = content.keys() - {"profile", "profiles"}
    if unknown:
        raise CommandFailed(
            f"{path}: {min(unknown)} is unknown there; it has `profile` and tables [profiles.NAME]"
        )
    return content


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields properties. TOML reads `bootstrap.servers = ...` as a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            yield prefix + key, ",".join(map(str, value))
        else:
            yield prefix + key, str(value).lower() if isinstance(value, bool) else str(value)


def _no_profile(name: str, path: str, profiles: object) -> str:
    known = list(profiles) if isinstance(profiles, dict) else []
    if not known:
        return (
            f"no profile {name!r}: {path} has none; write there [profiles.{name}] and below it"
            ' bootstrap.servers = "HOST:PORT"'
        )
    from odradek.config.spelling import did_you_mean

    there = f"; there are {', '.join(known)}"
    return f"no profile {name!r} in {path}{did_you_mean(name, known) or there}"
