"""What the console must know of an OpenID provider."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from odradek.web.guards import LOOPBACK

ACCESS_TOKEN: Final = "access_token"  # noqa: S105 - the name of a kind
ID_TOKEN: Final = "id_token"  # noqa: S105


class BadProvider(Exception):
    """What a provider says of itself, or the settings of it, cannot be used."""


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scope: str = "openid profile email"
    shows_id_token: bool = False
    """Whether the brokers are shown the ID token, and not the access token."""

    @property
    def host(self) -> str:
        return urlsplit(self.issuer).hostname or self.issuer


def check_address(url: str, name: str) -> str:
    """Returns the address. Codes and secrets go there, so it needs https, but on this machine."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and (parts.hostname or "") in LOOPBACK
    if (parts.scheme != "https" and not is_local) or not parts.hostname or parts.username:
        raise BadProvider(f"{name}={url!r} is not a URL that begins with https://")
    return url
