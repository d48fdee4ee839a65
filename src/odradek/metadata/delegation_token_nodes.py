"""The nodes of delegation tokens: one for each token, below `/delegation_token/tokens`, with the
JSON object that Kafka's brokers wrote to ZooKeeper. The secret of a token is not in it.

`ownerGroups` is ours; Kafka ignores it.
"""

import re
from typing import Final

from odradek.metadata.json_fields import JsonFields, MalformedNode, encode_fields
from odradek.metadata.paths import node_name_meant, sanitized
from odradek.security.delegation_tokens import TokenInformation
from odradek.security.principals import Principal

TOKENS: Final = "/delegation_token/tokens"
PARENTS: Final = ("/delegation_token", TOKENS)

_VERSION: Final = 3
_REQUESTER_SINCE: Final = 3
# Ids are UUIDs in URL-safe base 64. A user name of a log-in is not a path before it is checked.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def token_path(token_id: str) -> str | None:
    """Returns the path of a token's node, or None if the text cannot be the id of a token."""
    return f"{TOKENS}/{token_id}" if _ID.fullmatch(token_id) else None


def encode_token(token: TokenInformation) -> bytes:
    return encode_fields(
        {
            "version": _VERSION,
            "owner": sanitized(str(token.owner)),
            "ownerGroups": list(token.owner.groups),
            "tokenRequester": sanitized(str(token.requester)),
            "renewers": [sanitized(str(renewer)) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.token_id,
        }
    )


def decode_token(path: str, value: bytes) -> TokenInformation:
    fields = JsonFields(path, value)
    owner = _principal(path, fields.text("owner"))
    groups = fields.texts("ownerGroups", ())
    version = fields.integer("version")
    has_requester = version >= _REQUESTER_SINCE
    return TokenInformation(
        token_id=fields.text("tokenId"),
        owner=owner._replace(groups=groups),
        requester=_principal(path, fields.text("tokenRequester")) if has_requester else owner,
        renewers=tuple(_principal(path, renewer) for renewer in fields.texts("renewers")),
        issued_ms=fields.integer("issueTimestamp"),
        expires_ms=fields.integer("expiryTimestamp"),
        max_ms=fields.integer("maxTimestamp"),
    )


def _principal(path: str, text: str) -> Principal:
    # `Principal.parse` drops spaces around the text, as befits an operator's input. Here they are a
    # part of the name: the token of "admin " must not become one of "admin".
    kind, colon, name = node_name_meant(text).partition(":")
    if not (kind and colon and name):
        raise MalformedNode(path, "it names somebody who is not a principal")
    return Principal(kind, name)
