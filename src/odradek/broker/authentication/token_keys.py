"""Where the public keys of an issuer of tokens are read: a file, or a URL.

A URL is opened by the standard library in a worker thread, with a time limit and a size limit.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from odradek.config.listener_settings import ListenerSettings
from odradek.config.setting import InvalidSetting
from odradek.world import World

if TYPE_CHECKING:
    from odradek.security.sasl.server.verification_keys import VerificationKeys

_NAME: Final = "sasl.oauthbearer.jwks.endpoint.url"
_MAX_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 10.0


def keys_of(settings: ListenerSettings, world: World) -> "VerificationKeys":
    """Returns the keys of a listener, which are not fetched yet. Raises `InvalidSetting`."""
    from odradek.security.sasl.server.verification_keys import (  # noqa: PLC0415 - an extra
        VerificationKeys,
    )

    url = settings.sasl_oauthbearer_jwks_endpoint_url
    name = settings.prefix + _NAME
    if not url:
        raise InvalidSetting(name, None, "must be set: the URL or file of the issuer's keys")
    read = _reader(name, url, world)

    async def fetch() -> bytes:
        return await world.workers.run_blocking(read)

    return VerificationKeys(
        fetch,
        url,
        refresh_s=settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
        retry_s=settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000,
        max_retry_s=settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000,
    )


def _reader(name: str, url: str, world: World) -> Callable[[], bytes]:
    parts = urlsplit(url)
    if parts.scheme == "file" or url.startswith("/"):
        path = unquote(parts.path)
        return lambda: world.disk.read(path)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidSetting(name, url, "must begin with https://, http:// or file:///")
    return lambda: _download(url)


def _download(url: str) -> bytes:
    """Raises OSError, also for an answer that is not 200."""
    from http.client import HTTPException  # noqa: PLC0415 - only where tokens are checked
    from urllib.request import Request, urlopen  # noqa: PLC0415

    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - checked above
            data: bytes = answer.read(_MAX_BYTES + 1)
    except HTTPException as error:
        raise OSError(f"the answer is not HTTP: {error}") from None
    if len(data) > _MAX_BYTES:
        raise OSError(f"the answer has more than {_MAX_BYTES} bytes")
    return data
