"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the password is not sent.

1. client: `n,,n=alice,r=NONCE`             server: `r=NONCE+OURS,s=SALT,i=ITERATIONS`
2. client: `c=biws,r=NONCE+OURS,p=PROOF`    server: `v=SIGNATURE`

Only the client has to compute the costly hash of the password. An unknown user is asked for a proof
like a known one, with a salt that is always the same for that name, and fails in the second step
with the same message: who tries names does not learn which exist.

A client that logs in by a delegation token says so: its first message ends with `,tokenauth=true`,
its name is the id of the token, and its password is the HMAC of the token. Users and tokens are
looked up apart, so a user's name that is the id of a token leads nowhere.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, NamedTuple

from odradek.security.sasl.server.exchange import Login, LoginFailed, Step
from odradek.security.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism

_FIRST: Final = re.compile(
    r"(?P<header>n,(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[^,]*)*))"
)
_FINAL: Final = re.compile(
    r"(?P<bare>c=(?P<binding>[^,]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[^,]*)*?),p=(?P<proof>[^,]+)"
)
_NO_BINDING: Final = "biws"  # n,,
_FOREIGN: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_NONCE_BYTES: Final = 18
# A message has a name, a nonce and hardly anything else. Half a megabyte of commas, which the
# broker would receive, takes 150 ms and 140 MB to take apart.
_MAX_MESSAGE_BYTES: Final = 16 * 1024


class Account(NamedTuple):
    """A user or a token that exists, and who the client is once it has proved the password."""

    credential: ScramCredential
    login: Login


class UnknownUser(NamedTuple):
    """A name that nobody has. The client is sent this salt."""

    salt: bytes


FindAccount = Callable[[str, bool], Account | UnknownUser | Awaitable[Account | UnknownUser]]
"""Returns the account of a name, which is the id of a token if the second argument is true. Raises
`LoginFailed` if nobody can say."""


class Scram:
    """One of both mechanisms, at one listener."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_account: FindAccount,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._mechanism = mechanism
        self._find_account = find_account
        self._random_bytes = random_bytes

    @property
    def name(self) -> str:
        return self._mechanism.kafka_name

    def begin(self) -> "ScramExchange":
        nonce = base64.b64encode(self._random_bytes(_NONCE_BYTES)).decode()
        return ScramExchange(self._mechanism, self._find_account, nonce)

    def close(self) -> None: ...


class ScramExchange:
    """Invariant: `_known` is an account only between the first and the second step of a user or a
    token that exists; the second step succeeds for no other."""

    def __init__(self, mechanism: ScramMechanism, find_account: FindAccount, nonce: str) -> None:
        """`nonce` is the broker's half."""
        self._mechanism = mechanism
        self._find_account = find_account
        self._own_nonce = nonce
        self._is_first = True
        self._user = self._nonce = self._header = self._messages = ""
        self._known: Account | None = None

    def respond(self, token: bytes) -> Step | Awaitable[Step]:
        if len(token) > _MAX_MESSAGE_BYTES:
            raise LoginFailed("a message of SCRAM is too long", user=self._user)
        try:
            message = token.decode()
        except UnicodeDecodeError:
            raise LoginFailed("a message of SCRAM is not UTF-8") from None
        if not self._is_first:
            return self._finish(message)
        self._is_first = False
        found = _FIRST.fullmatch(message)
        if found is None:
            raise LoginFailed("the first message of SCRAM is malformed")
        self._user = _unescaped(found["name"])
        if found["authzid"] and _unescaped(found["authzid"]) != self._user:
            raise LoginFailed("the client wants to be somebody else", _FOREIGN, self._user)
        self._header = found["header"]
        self._nonce = found["nonce"] + self._own_nonce
        account = self._find_account(self._user, _is_token(found["extensions"]))
        if isawaitable(account):
            return self._challenge_later(found["bare"], account)
        return self._challenge(found["bare"], account)

    async def _challenge_later(self, bare: str, account: Awaitable[Account | UnknownUser]) -> Step:
        return self._challenge(bare, await account)

    def _challenge(self, bare: str, account: Account | UnknownUser) -> Step:
        if isinstance(account, UnknownUser):
            salt, iterations = account.salt, MIN_ITERATIONS
        else:
            self._known = account
            salt, iterations = account.credential.salt, account.credential.iterations
        reply = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        self._messages = f"{bare},{reply}"
        return Step(reply.encode())

    def _finish(self, message: str) -> Step:
        found = _FINAL.fullmatch(message)
        if found is None:
            raise LoginFailed("the second message of SCRAM is malformed", user=self._user)
        binding = base64.b64encode(self._header.encode()).decode()
        # Java's client sends the binding of an empty header, whatever its header was.
        if found["binding"] not in (binding, _NO_BINDING):
            raise LoginFailed("the channel binding is wrong", user=self._user)
        # A recorded exchange cannot be sent again: the second half of the nonce is new.
        # librdkafka before 2.6.1, which the kcat of Linux distributions is made of, writes the
        # client's half twice. Kafka 4 refuses that; the broker's half is bound all the same.
        twice = self._nonce.removesuffix(self._own_nonce) + self._nonce
        is_known = hmac.compare_digest(found["nonce"], self._nonce)
        if not is_known and not hmac.compare_digest(found["nonce"], twice):
            raise LoginFailed("the nonce is not that of this exchange", user=self._user)
        known = self._known
        if known is None:
            raise LoginFailed("there is no such user or token", user=self._user)
        messages = f"{self._messages},{found['bare']}".encode()
        if not self._proves(known.credential, messages, found["proof"]):
            raise LoginFailed("the password is wrong", user=self._user)
        signature = hmac.digest(known.credential.server_key, messages, self._mechanism.digest)
        return Step(b"v=" + base64.b64encode(signature), known.login)

    def _proves(self, known: ScramCredential, messages: bytes, proof_text: str) -> bool:
        digest = self._mechanism.digest
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            return False
        signature = hmac.digest(known.stored_key, messages, digest)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(digest, client_key).digest(), known.stored_key)


def _is_token(extensions: str) -> bool:
    """Returns whether the extensions of the first message, such as `,a=b,c=d`, say that the client
    logs in by a token."""
    pairs = dict(pair.partition("=")[::2] for pair in extensions.split(","))
    return pairs.get("tokenauth", "").lower() == "true"


def _unescaped(name: str) -> str:
    """Returns a name without SCRAM's escapes of comma and equals sign."""
    if re.search("=(?!2C|3D)", name):
        raise LoginFailed("the name has an equals sign that is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")
