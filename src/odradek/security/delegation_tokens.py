"""Delegation tokens (KIP-48, KIP-373): secrets by which clients log in as the owner of a token.

A token has an id, which is no secret, and an HMAC of the id, which is one: brokers compute it with
`delegation.token.secret.key` and store it nowhere. A client logs in by SCRAM with the id as its
user name and the HMAC, in base64, as its password.

- The owner is who the client is after the log-in.
- The requester is who created the token, on behalf of the owner or of itself.
- The renewers may move the end of the token to a later time, as the owner may.

A token ends at `expires_ms`. It can be renewed until `max_ms`, and not beyond.
"""

import hmac
from collections.abc import Collection
from typing import NamedTuple

from odradek.security.principals import Principal


class TokenInformation(NamedTuple):
    """What everybody may know of a token. Times are of the wall clock.

    `owner` has the groups that the requester was in if it created the token for itself. A token for
    somebody else has none: nobody asked the directory about them.
    """

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_ms < now_ms or self.max_ms < now_ms

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Returns whether the principal may renew and expire the token: its owner and renewers. The
        requester is not among them unless it is named."""
        return any(principal.is_same_user(one) for one in (self.owner, *self.renewers))

    def concerns(self, principals: Collection[str]) -> bool:
        """Returns whether one of the principals, as in `User:ada`, may see the token without
        further permission. A request may name very many, so they should be a set."""
        return any(str(one) in principals for one in (self.owner, self.requester, *self.renewers))


def compute_hmac(secret_key: str, token_id: str) -> bytes:
    """Returns the secret of a token, as Kafka computes it: HMAC-SHA-512 of the id."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")
