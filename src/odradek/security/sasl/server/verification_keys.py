"""The public keys of an issuer of tokens (JWKS), fetched off the event loop.

They are fetched at the first token, then every `refresh_s`. A token with an unknown key lets them
be fetched at once, because issuers begin to use a key soon after they publish it; but at most once
in ten seconds, for everybody can send such tokens. One fetch runs at a time, and all log-ins that
need it wait for it. If a fetch fails, the keys that are known stay in force.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from odradek.security.sasl.server.oauthbearer import BadToken

logger = logging.getLogger("odradek.authentication")

Fetch = Callable[[], Awaitable[bytes]]
"""Returns the JSON text of the keys. Raises OSError."""

_MIN_PAUSE_S: Final = 10.0
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

ALGORITHMS: Final = (*_RSA, "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms of signatures by a private key. `HS256` would take the public key, which everybody
has, for a shared secret, and `none` is no signature at all."""


class VerificationKey(NamedTuple):
    """A public key, and the algorithms that a token may be signed with by it: that which the issuer
    names, or those for which keys of this kind are made."""

    key: Any
    algorithms: tuple[str, ...]


class VerificationKeys:
    def __init__(
        self,
        fetch: Fetch,
        source: str,
        *,
        refresh_s: float,
        retry_s: float = 0.1,
        max_retry_s: float = 10.0,
    ) -> None:
        """`source` is the name of the file or URL, for messages."""
        self._fetch = fetch
        self._source = source
        self._refresh_s = refresh_s
        self._first_retry_s, self._max_retry_s = retry_s, max_retry_s
        self._retry_s = retry_s
        self._keys: dict[str | None, VerificationKey] = {}
        self._fetching: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asked_s: float | None = None
        self.fetches = 0

    def find(self, key_id: str | None) -> VerificationKey | None:
        """Returns a key that is known. A token without a key id means the only key."""
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def look_for(self, key_id: str | None) -> VerificationKey | None:
        """Returns a key that was not known until now, if the issuer has it. Raises `BadToken` if
        the issuer has never answered."""
        loop = asyncio.get_running_loop()
        is_due = self._asked_s is None or loop.time() - self._asked_s >= _MIN_PAUSE_S
        if self._fetching is None and is_due:
            self._asked_s = loop.time()
            self._begin()
        if self._fetching is not None:
            # Another log-in may wait for it too, so it is not cancelled with this one.
            await asyncio.shield(self._fetching)
        if not self._keys:
            raise BadToken(f"the keys of the issuer cannot be fetched from {self._source}")
        return self.find(key_id)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_keys())

    async def _fetch_keys(self) -> None:
        pause_s = self._refresh_s
        try:
            self.fetches += 1
            self._keys = _parse(await self._fetch())
            self._retry_s = self._first_retry_s
        except (OSError, ValueError, RecursionError) as error:
            logger.warning("cannot fetch the keys of tokens from %s: %s", self._source, error)
            pause_s = min(self._retry_s, self._refresh_s)
            self._retry_s = min(2 * self._retry_s, self._max_retry_s)
        finally:
            self._fetching = None
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._begin)


def _parse(text: bytes) -> dict[str | None, VerificationKey]:
    """Returns the keys by their ids; kinds of keys that are not known are left out. Raises
    ValueError if there is none."""
    import jwt  # noqa: PLC0415 - an extra

    document = json.loads(text)
    found = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise ValueError("it is not a JSON Web Key Set: it has no list 'keys'")
    keys: dict[str | None, VerificationKey] = {}
    for entry in found:
        # A symmetric key ("oct") in a public document is no secret.
        if not isinstance(entry, dict) or entry.get("kty") == "oct":
            continue
        if entry.get("use", "sig") != "sig":
            continue
        key_id = entry.get("kid")
        try:
            if key_id is not None and not isinstance(key_id, str):
                raise TypeError("its id is not text")
            keys[key_id] = _verification_key(entry)
        # What the package raises for values of unexpected types is not always its own error. The
        # other keys count all the same.
        except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError) as error:
            logger.info("a key of the issuer cannot be used: %s", error)
    if not keys:
        raise ValueError("it has no key that can be used")
    return keys


def _verification_key(entry: dict[str, Any]) -> VerificationKey:
    import jwt  # noqa: PLC0415 - an extra

    parsed = jwt.PyJWK(entry)
    algorithm = parsed.algorithm_name
    if algorithm not in ALGORITHMS:
        raise ValueError(f"it is for {algorithm!r}")
    # An RSA key that names none is good for each of these. The curve of another key decides.
    has_choice = "alg" not in entry and algorithm in _RSA
    return VerificationKey(parsed.key, _RSA if has_choice else (algorithm,))
