"""Tokens without a signature (`alg: none`), for tests: everybody can be everybody.

They are accepted only where the operator names Kafka's class for them,
OAuthBearerUnsecuredValidatorCallbackHandler. The options of the JAAS line are Kafka's too.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.config.values import InvalidValue
from odradek.security.sasl.server.exchange import Login
from odradek.security.sasl.server.oauthbearer import BadToken
from odradek.security.sasl.server.token_claims import ClaimRules, check_claims

_OPTION: Final = "unsecuredValidator"


class UnsecuredTokens:
    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """Raises `InvalidValue` for a bad option of the JAAS line."""
        skew = options.get(f"{_OPTION}AllowableClockSkewMs", "0")
        if not skew.isdigit():
            raise InvalidValue(f"{_OPTION}AllowableClockSkewMs must be a number of milliseconds")
        self._rules = ClaimRules(
            scope_claim=options.get(f"{_OPTION}ScopeClaimName", "scope"),
            name_claim=options.get(f"{_OPTION}PrincipalClaimName", "sub"),
            required_scopes=tuple(options.get(f"{_OPTION}RequiredScope", "").split()),
            skew_ms=int(skew),
            needs_issued_at=False,
        )
        self._now_ms = now_ms

    def check(self, token: str) -> Login:
        head, _, rest = token.partition(".")
        body, dot, signature = rest.partition(".")
        if not dot or signature or _decoded(head).get("alg") != "none":
            raise BadToken("it is not a token without a signature")
        claims = {name: value for name, value in _decoded(body).items() if name != "aud"}
        return check_claims(claims, self._rules, self._now_ms())

    def close(self) -> None: ...


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise BadToken("it is not a token: a part of it is not JSON in base64") from None
    if not isinstance(found, dict):
        raise BadToken("it is not a token: a part of it is not a JSON object")
    return found
