"""What somebody who wants in sends to a secured listener, before the log-in.

An attack is a listener, whether the TLS handshake is finished first, and the bytes that follow. A
seed and a number name it; only the random bytes of OpenSSL's ClientHello differ from run to run.
"""

import base64
import json
import ssl
import struct
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from odradek.protocol.headers import encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.schema import Request
from tests.fuzz.inputs import InputSource
from tests.fuzz.mutation import INTERESTING, mutate, with_size
from tests.fuzz.requests import Surroundings
from tests.fuzz.secured_broker import MECHANISMS, USER

PROBE_ID: Final = 0x5E47_1E1D
_LONGEST_NAME: Final = 70_000
_PLACES: Final = ("ssl", "sasl", "sasl_ssl", "sasl_ssl raw")
_WEIGHTS: Final = (15, 50, 20, 15)


class Attack(NamedTuple):
    kind: str
    listener: str
    is_inside_tls: bool
    data: bytes


def frame(request: Request, version: int, correlation_id: int = 7) -> bytes:
    parts = encode_request(request, version, correlation_id, "x")
    return b"".join(parts)  # type: ignore[arg-type] # all of these are bytes


# A client that is in is told of brokers. It ends every attack on a listener with a log-in.
PROBE: Final = frame(MetadataRequest(topics=[]), 1, PROBE_ID)


class AttackSource:
    def __init__(self, seed: int, surroundings: Surroundings) -> None:
        self._seed = seed
        self._frames = InputSource(seed, surroundings)
        self._hello = ssl.create_default_context()

    def attack(self, number: int) -> Attack:
        random = Random(f"{self._seed} {number}")
        (place,) = random.choices(_PLACES, _WEIGHTS)
        if place in ("ssl", "sasl_ssl raw"):
            return Attack("TLS", place.split()[0], False, self._broken_hello(random))
        kind, data = self._log_in(random, number)
        return Attack(kind, place, place == "sasl_ssl", data)

    # TLS

    def _broken_hello(self, random: Random) -> bytes:
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake = self._hello.wrap_bio(into, out, server_hostname="localhost")
        with suppress(ssl.SSLWantReadError):
            handshake.do_handshake()
        hello = bytearray(out.read())
        for _ in range(random.choice([0, 1, 1, 2, 8])):
            position = random.randrange(len(hello))
            if random.random() < 0.5:
                hello[position] = random.randrange(256)
            else:
                value = random.choice(INTERESTING)
                hello[position : position + len(value)] = value
        match random.randrange(6):
            case 0:
                del hello[random.randrange(1, len(hello)) :]
            case 1:
                hello += random.randbytes(random.choice([1, 5, 300]))
            case 2:
                # The record says it is longer than TLS allows, or than what comes.
                hello[3:5] = struct.pack(">H", random.choice([0, 1, 16_641, 65_535]))
            case 3:
                # SSL 2 and 3, plain text, and HTTP.
                begins = [b"\x80\x2e\x01\x00\x02", b"\x16\x03\x00", b"\x00\x00\x00\x0a", b"GET / "]
                return random.choice(begins) + random.randbytes(random.choice([0, 40, 3000]))
            case _:
                pass
        return bytes(hello)

    # SASL

    def _log_in(self, random: Random, number: int) -> tuple[str, bytes]:
        """Some requests that are in order, then one that is not, then the probe."""
        mechanism = random.choice(MECHANISMS)
        begun = frame(ApiVersionsRequest(), 0) if random.random() < 0.3 else b""
        version = random.choice([0, 1, 1, 1])
        shaken = begun + frame(SaslHandshakeRequest(mechanism=mechanism), version)
        kind = random.choice(["frame", "frame after handshake", "token", "token", "handshake"])
        if kind == "frame":
            return kind, begun + self._frames.input(number).data + PROBE
        if kind == "frame after handshake":
            return kind, shaken + self._frames.input(number).data + PROBE
        if kind == "handshake":
            name = random.choice([*MECHANISMS, "", "GSSAPI", "plain", "\0", "A" * _LONGEST_NAME])
            right = frame(SaslHandshakeRequest(mechanism=name[:32_000]), 1)
            return kind, begun + mutate(random, right, shaken) + PROBE
        data = shaken
        for _ in range(random.choice([1, 1, 2, 3])):
            data += _wrapped(random, hostile_token(random, mechanism), version)
        return kind, data + PROBE


def _wrapped(random: Random, token: bytes, version: int) -> bytes:
    if version == 0 and random.random() < 0.9:
        return with_size(token)
    return frame(SaslAuthenticateRequest(auth_bytes=token), random.choice([0, 1]))


def hostile_token(random: Random, mechanism: str) -> bytes:
    made = _TOKENS.get(mechanism, _scram)(random)
    for _ in range(random.choice([0, 0, 1, 3])):
        if made:
            position = random.randrange(len(made))
            made = made[:position] + random.choice(INTERESTING) + made[position + 1 :]
    return made


def _plain(random: Random) -> bytes:
    name = random.choice([USER, "admin", "", "a" * _LONGEST_NAME, "ä\0b", "*", "User:" + USER])
    identity = random.choice(["", "", USER, "admin"])
    password = random.choice(
        ["", "guess", USER, "p" * _LONGEST_NAME, "\0", "${file:/etc/passwd:x}"]
    )
    return "\0".join((identity, name, password)).encode()


def _scram(random: Random) -> bytes:
    name = random.choice([USER, "admin", "", "n" * _LONGEST_NAME, "=2C=3D", "=", ",,"])
    nonce = random.choice(["abc", "", "x" * 5000, "a,b", "ä"])
    first = f"{random.choice(['n,,', 'y,,', 'p=tls-unique,,', 'n,a=admin,', ''])}n={name},r={nonce}"
    proof = base64.b64encode(random.randbytes(random.choice([0, 1, 32, 64, 5000]))).decode()
    final = f"c={random.choice(['biws', '', 'eSws'])},r={nonce},p={proof}"
    token = random.choice([first, final, f"{first},tokenauth=true", f"{final},m=x"])
    return token.encode()


def _bearer(random: Random) -> bytes:
    algorithm = random.choice(["none", "None", "HS256", "RS256", "ES256", "", 7, None, "A" * 9999])
    header = {"alg": algorithm, "kid": random.choice(["none", "", 5, "x" * 5000, "../../etc"])}
    if random.random() < 0.3:
        header |= {"jku": "http://127.0.0.1:1/keys", "x5u": "file:///etc/passwd", "crit": ["x"]}
    claims = {"sub": "admin", "aud": "odradek", "exp": random.choice([1 << 40, -1, "x", 1e308])}
    parts = [_segment(header), _segment(claims), random.choice(["", "AAAA", "A" * 20_000, "?"])]
    if random.random() < 0.1:
        parts = parts[: random.randrange(3)] or [""]
    if random.random() < 0.05:
        # Nested so deeply that a recursive parser would end the process.
        parts = [base64.urlsafe_b64encode(b"[" * 100_000).decode(), "e30", ""]
    header_line = random.choice(["n,,", "n,a=admin,", "", "y,,"])
    separator = random.choice(["\x01", "\x01", "", "\x00"])
    token = f"{header_line}{separator}auth=Bearer {'.'.join(parts)}{separator}{separator}"
    return random.choice([token, "\x01", f"{token}ext=1\x01"]).encode()


def _segment(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


_TOKENS: Final = {"PLAIN": _plain, "OAUTHBEARER": _bearer}
