"""What the claims of a token must say, whoever has checked its signature."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.security.sasl.server.exchange import Login
from odradek.security.sasl.server.oauthbearer import BadToken

_MAX_SECONDS: Final = 2**53


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """`audiences` is None if none is expected: then a token that names one is for somebody else."""

    audiences: tuple[str, ...] | None = None
    issuer: str | None = None
    scope_claim: str = "scope"
    name_claim: str = "sub"
    skew_ms: int = 30_000
    required_scopes: tuple[str, ...] = ()
    needs_issued_at: bool = True


def check_claims(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> Login:
    """Returns whose token it is. Raises `BadToken`."""
    expires_ms = _time_ms(claims, "exp", is_required=True)
    assert expires_ms is not None
    if now_ms - rules.skew_ms >= expires_ms:
        raise BadToken(f"the token of {_shown(claims, rules)} has expired")
    issued_ms = _time_ms(claims, "iat", is_required=rules.needs_issued_at)
    for name, begin_ms in (("iat", issued_ms), ("nbf", _time_ms(claims, "nbf"))):
        if begin_ms is not None and begin_ms > now_ms + rules.skew_ms:
            raise BadToken(f"the token is not valid yet, by its claim {name}")
    if issued_ms is not None and issued_ms > expires_ms:
        raise BadToken("the token expires before it was issued")
    _check_audience(claims.get("aud"), rules)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise BadToken(f"the token is not from {rules.issuer}, but from {claims.get('iss')!r}")
    scopes = _scopes(claims.get(rules.scope_claim), rules)
    missing = [scope for scope in rules.required_scopes if scope not in scopes]
    if missing:
        raise BadToken(f"the token has no scope {', '.join(missing)}")
    user = claims.get(rules.name_claim)
    if not isinstance(user, str) or not user.strip():
        raise BadToken(f"the token has no name in its claim {rules.name_claim}")
    return Login(user.strip(), expires_ms, _groups(claims.get("groups")))


def _time_ms(claims: Mapping[str, Any], name: str, *, is_required: bool = False) -> int | None:
    value = claims.get(name)
    if value is None and not is_required:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadToken(f"the token has no time in its claim {name}")
    if not -_MAX_SECONDS < value < _MAX_SECONDS:
        raise BadToken(f"the claim {name} of the token is not a time")
    return int(value * 1000)


def _check_audience(found: object, rules: ClaimRules) -> None:
    named = [found] if isinstance(found, str) else found
    if named is None:
        if rules.audiences is not None:
            raise BadToken("the token has no audience")
        return
    if not isinstance(named, list) or not set(rules.audiences or ()) & {*map(str, named)}:
        raise BadToken(f"the token is for another audience: {found!r}")


def _scopes(found: object, rules: ClaimRules) -> frozenset[str]:
    if found is None:
        return frozenset()
    scopes = found.split() if isinstance(found, str) else found
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise BadToken(f"the claim {rules.scope_claim} of the token has no scopes")
    return frozenset(scopes)


def _groups(found: object) -> tuple[str, ...]:
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def _shown(claims: Mapping[str, Any], rules: ClaimRules) -> str:
    return repr(claims.get(rules.name_claim))
