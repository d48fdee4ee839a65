"""Decides which version of an API a client and a broker use on their connection.

The client asks the broker for its versions when it connects (ApiVersions). `Connection` then
chooses a version for each API by `choose_version`, and caches it.
"""

from collections.abc import Mapping

from odradek.client.errors import UnsupportedVersion
from odradek.protocol.schema import Request

ApiVersions = Mapping[int, tuple[int, int]]
"""The lowest and highest version that a broker speaks, by API key."""


def choose_version(request_class: type[Request], api_versions: ApiVersions, address: str) -> int:
    """Returns the newest version that both sides know, or raises `UnsupportedVersion`. `address` of
    the broker is for the message."""
    ours, theirs = request_class.versions, api_versions.get(request_class.api_key)
    name = request_class.__name__.removesuffix("Request")
    if theirs is None:
        raise UnsupportedVersion(f"{address} does not offer {name}")
    version = min(ours.last, theirs[1])
    if version < max(ours.first, theirs[0]):
        raise UnsupportedVersion(
            f"{address} speaks {name} versions {theirs[0]} to {theirs[1]},"
            f" this client {ours.first} to {ours.last}"
        )
    return version
