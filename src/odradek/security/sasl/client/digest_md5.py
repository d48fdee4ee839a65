"""DIGEST-MD5 (RFC 2831) of a client: only for ZooKeeper, which has no better log-in by password.

1. server: `realm="zk-sasl-md5",nonce="...",qop="auth",...`
2. client: `username="broker",...,response=HASH`             server: `rspauth=HASH`

MD5 protects the password badly: who has recorded a log-in can guess it. Use it with TLS, or use
Kerberos. The answer of the server proves that it knows the password, and is checked.
"""

import hashlib
import hmac
import re
from typing import ClassVar, Final

from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed

NONCE_BYTES: Final = 24
_FIELD: Final = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?:,|$)')
_COUNT: Final = "00000001"
_QUALITY: Final = "auth"


class DigestMd5Exchange(ClientExchange):
    mechanism: ClassVar[str] = "DIGEST-MD5"

    def __init__(self, username: str, password: str, uri: str, nonce: bytes) -> None:
        """`uri` is SERVICE/HOST. `nonce` are random bytes that nobody can guess."""
        if not username or not password:
            raise SaslFailed("DIGEST-MD5 needs a username and a password")
        self._username = username
        self._password = password
        self._uri = uri
        self._nonce = nonce.hex()
        self._expected: str | None = None

    def first_message(self) -> bytes:
        """The server begins."""
        return b""

    def reply(self, challenge: bytes) -> bytes | None:
        fields = _fields(challenge)
        if self._expected is None:
            return self._answer(fields)
        if not hmac.compare_digest(fields.get("rspauth", ""), self._expected):
            raise SaslFailed("the server cannot prove that it knows the password")
        self.is_complete = True
        return None

    def _answer(self, fields: dict[str, str]) -> bytes:
        if "nonce" not in fields or fields.get("algorithm", "md5-sess") != "md5-sess":
            raise SaslFailed("the server sent a malformed challenge")
        qualities = fields.get("qop", _QUALITY).split(",")
        if _QUALITY not in [quality.strip() for quality in qualities]:
            raise SaslFailed("the server wants a security layer of DIGEST-MD5")
        realm, nonce = fields.get("realm", ""), fields["nonce"]
        secret = _md5(f"{self._username}:{realm}:{self._password}".encode())
        key = _md5(secret + f":{nonce}:{self._nonce}".encode()).hex()

        def digest(who: str) -> str:
            what = _md5(f"{who}:{self._uri}".encode()).hex()
            parts = (key, nonce, _COUNT, self._nonce, _QUALITY, what)
            return _md5(":".join(parts).encode()).hex()

        self._expected = digest("")
        quoted = {
            "username": self._username,
            "realm": realm,
            "nonce": nonce,
            "cnonce": self._nonce,
            "digest-uri": self._uri,
        }
        answer = [f'{name}="{_escaped(text)}"' for name, text in quoted.items()]
        answer += [f"nc={_COUNT}", f"qop={_QUALITY}", "charset=utf-8", "maxbuf=65536"]
        return ",".join([*answer, f"response={digest('AUTHENTICATE')}"]).encode()


def _md5(data: bytes) -> bytes:
    # The mechanism is made of it.
    return hashlib.md5(data, usedforsecurity=False).digest()


def _fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslFailed("the server sent a message that is not text") from None
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _FIELD.findall(text)
    }


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
