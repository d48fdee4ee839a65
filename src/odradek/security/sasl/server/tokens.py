"""Tokens that are signed with a key of their issuer (JWT), checked with its public keys.

Only signatures by a private key are accepted (`verification_keys.ALGORITHMS`), and only by an
algorithm of that key. PyJWT checks signatures (the extra `security`); the claims are checked by
`token_claims`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.security.sasl.server.exchange import Login
from odradek.security.sasl.server.oauthbearer import BadToken
from odradek.security.sasl.server.token_claims import ClaimRules, check_claims
from odradek.security.sasl.server.verification_keys import (
    ALGORITHMS,
    VerificationKey,
    VerificationKeys,
)

_MAX_BYTES: Final = 64 * 1024


class SignedTokens:
    """Checks the tokens of one listener."""

    def __init__(
        self, keys: VerificationKeys, rules: ClaimRules, now_ms: Callable[[], int]
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    def close(self) -> None:
        self._keys.close()

    def check(self, token: str) -> Login | Awaitable[Login]:
        key_id = _key_id(token)
        key = self._keys.find(key_id)
        return self._check_later(token, key_id) if key is None else self._check(token, key)

    async def _check_later(self, token: str, key_id: str | None) -> Login:
        key = await self._keys.look_for(key_id)
        if key is None:
            raise BadToken(f"the token is signed with an unknown key: {key_id!r}")
        return self._check(token, key)

    def _check(self, token: str, key: VerificationKey) -> Login:
        import jwt  # noqa: PLC0415 - an extra

        # Times are compared by the clock of the broker's world, and the audience as Kafka does it.
        unchecked = dict.fromkeys(
            ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub"),
            False,
        )
        options: Any = {"verify_signature": True, **unchecked}
        try:
            claims = jwt.decode(token, key.key, algorithms=[*key.algorithms], options=options)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise BadToken(f"the token is not accepted: {error}") from None
        return check_claims(claims, self._rules, self._now_ms())


def _key_id(token: str) -> str | None:
    """Returns which key a token says it is signed with. Raises `BadToken` for one that no public
    key could check."""
    import jwt  # noqa: PLC0415 - an extra

    if len(token) > _MAX_BYTES:
        raise BadToken("the token is too long")
    try:
        header = jwt.get_unverified_header(token)
    # Not all versions of the package turn deeply nested JSON into an error of their own.
    except (jwt.PyJWTError, RecursionError) as error:
        raise BadToken(f"it is not a token: {error}") from None
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise BadToken(f"the token is signed by {algorithm!r}, which is not accepted")
    key_id = header.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise BadToken("the key id of the token is not text")
    return key_id
