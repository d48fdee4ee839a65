"""How long log-ins hold up other clients: so many a second by each mechanism, half of them wrong.

    python -m tests.fuzz.log_ins [--rate 50] [--seconds 10] [--only NAME ...]

It starts a broker of its own. While log-ins arrive, a canary in another process asks the broker for
API versions every few milliseconds: its longest wait is how long the broker's loop stood still, by
the clock and less the time that processes waited for a processor. Users of the mechanism `LDAP`
(PLAIN) are checked by a directory whose every answer takes two seconds. LDAP needs slapd, and
GSSAPI a Kerberos KDC; they are left out, with a line, where these are missing.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.broker_process import ToolMissing
from odradek.client import Admin
from odradek.client.admin.users import ScramUpsertion
from odradek.client.login import Login, login_of
from odradek.client.settings.shared import AdminSettings
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.security.scram import ScramMechanism
from odradek.world.randomness import Randomness
from tests.directory_server import BASE, running_directory, slapd
from tests.fuzz.canary import percentile
from tests.fuzz.run import singing
from tests.fuzz.secured_broker import MECHANISMS, PASSWORD, USER, SecuredBroker, secured_broker
from tests.fuzz.wire import Wire
from tests.kdc import Kdc, jaas

GOAL_MS: Final = 20.0
_LDAP_DELAY_S: Final = 2.0
_SASL: Final = "listener.name.sasl."
_AUDIENCE: Final = "odradek"
Logins = Mapping[str, tuple[Login, Login]]
"""For each name a log-in that is right and one that is wrong."""


@asynccontextmanager
async def delayed(port: int) -> AsyncIterator[int]:
    """A proxy before the directory whose answers are late; yields its port."""
    serving: set[asyncio.Task[None] | None] = set()

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause_s: float
    ) -> None:
        while data := await reader.read(65_536):
            await asyncio.sleep(pause_s)
            writer.write(data)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The event loop alone would let go of it.
        serving.add(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(pump(reader, back, 0), pump(there, writer, _LDAP_DELAY_S))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            back.close()
            writer.close()
            serving.discard(asyncio.current_task())

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with proxy:
        yield proxy.sockets[0].getsockname()[1]


def _login(mechanism: str, **more: str) -> Login:
    given = {name.replace("_", "."): text for name, text in more.items()}
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **given}
    return login_of(AdminSettings.from_properties(properties), Randomness())


def by_password(mechanism: str, user: str, password: str) -> tuple[Login, Login]:
    right = _login(mechanism, sasl_username=user, sasl_password=password)
    return right, _login(mechanism, sasl_username=user, sasl_password="wrong" + password)


def _by_token(directory: Path) -> tuple[Login, Login]:
    """Writes the keys of an issuer, and returns a token of it and one of somebody else."""
    key, other = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    (directory / "issuer.json").write_text(json.dumps({"keys": [{**public, "kid": "a"}]}))
    now_s = int(time.time())
    claims = {"sub": USER, "aud": _AUDIENCE, "iat": now_s, "exp": now_s + 3600}
    logins = []
    for number, signer in enumerate((key, other)):
        path = directory / f"token-{number}"
        path.write_text(jwt.encode(claims, signer, "RS256", headers={"kid": "a"}))
        url = path.as_uri()
        logins.append(_login("OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=url))
    return logins[0], logins[1]


async def log_in(port: int, login: Login) -> bool:
    """Returns whether the broker has let the client in."""
    client = await Wire.open("localhost", port)
    try:
        exchange = await login.exchange("localhost")
        await client.call(SaslHandshakeRequest(mechanism=login.mechanism), 1)
        message: bytes | None = exchange.first_message()
        while message is not None:
            answer = await client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                return False
            message = exchange.reply(bytes(answer.auth_bytes))
        return True
    except ConnectionError:
        return False
    finally:
        client.close()


async def measure(
    broker: SecuredBroker, logins: tuple[Login, Login], rate: int, seconds: float
) -> dict[str, object]:
    """Logs in `rate` times a second, right and wrong by turns; returns what was seen."""
    port, took_ms, mistakes = broker.ports["sasl"], list[float](), 0

    async def one(login: Login, *, is_right: bool) -> None:
        nonlocal mistakes
        begun_s = time.perf_counter()
        was_let_in = await log_in(port, login)
        mistakes += was_let_in is not is_right
        took_ms.append(1000 * (time.perf_counter() - begun_s))

    # What is loaded and computed once is so.
    await asyncio.gather(one(logins[0], is_right=True), one(logins[1], is_right=False))
    took_ms.clear()
    async with singing("127.0.0.1", broker.ports["inside"], broker.pid) as song:
        begun_s = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, begun_s + number / rate - time.perf_counter()))
                tasks.create_task(one(logins[number % 2], is_right=not number % 2))
    return {
        "log_ins": len(took_ms),
        "mistakes": mistakes,
        "p50_ms": percentile(took_ms, 50),
        "p99_ms": percentile(took_ms, 99),
        "longest_pause_ms": song["longest_stall_ms"],
        "by_the_clock_ms": song["clock_longest_stall_ms"],
    }


async def _prepare(broker: SecuredBroker) -> None:
    async with Admin(bootstrap_servers=f"127.0.0.1:{broker.ports['inside']}") as admin:
        for mechanism in ScramMechanism:
            made = ScramUpsertion.of_password(USER, PASSWORD, mechanism)
            await admin.alter_user_scram_credentials([made])


def _or_none(find: Callable[[], Kdc | Path]) -> Kdc | Path | None:
    try:
        return find()
    except ToolMissing as error:
        print(f"left out: {error}")
        return None


async def run(options: argparse.Namespace) -> int:
    directory = Path(tempfile.mkdtemp(prefix="odradek-log-ins-"))
    kdc, program = _or_none(lambda: Kdc(directory / "kdc")), _or_none(slapd)
    logins: dict[str, tuple[Login, Login]] = {
        **{name: by_password(name, USER, PASSWORD) for name in MECHANISMS[:3]},
        "OAUTHBEARER": _by_token(directory),
    }
    settings = {
        "sasl.oauthbearer.jwks.endpoint.url": (directory / "issuer.json").as_uri(),
        # Log-ins by a directory take longer than attacks may.
        "odradek.authentication.timeout.ms": "20000",
    }
    with ExitStack() as stack:
        if isinstance(kdc, Kdc):
            stack.enter_context(kdc.running())
            stack.enter_context(kdc.used_here())
            settings |= _kerberos(kdc)
            right, wrong = (kdc.keytab(name, name) for name in ("ada", "stranger"))
            properties = {"sasl_kerberos_service_name": "kafka"}
            logins["GSSAPI"] = (
                _login("GSSAPI", sasl_jaas_config=jaas(right, "ada"), **properties),
                _login("GSSAPI", sasl_jaas_config=jaas(wrong, "stranger"), **properties),
            )
        if isinstance(program, Path):
            (directory / "ldap").mkdir()
            server = stack.enter_context(running_directory(program, directory / "ldap"))
            logins["LDAP"] = by_password("PLAIN", "ada", "ada secret")
            async with delayed(server.port) as port:
                settings |= _ldap(port)
                return await _run(directory, settings, logins, options)
        return await _run(directory, settings, logins, options)


def _kerberos(kdc: Kdc) -> dict[str, str]:
    return {
        f"{_SASL}sasl.enabled.mechanisms": ",".join([*MECHANISMS, "GSSAPI"]),
        f"{_SASL}gssapi.sasl.jaas.config": jaas(
            kdc.keytab("broker", "kafka/localhost"), "kafka/localhost"
        ),
        # `stranger` has a ticket, and no name.
        f"{_SASL}sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](ada)",
    }


def _ldap(port: int) -> dict[str, str]:
    given = {
        "urls": f"ldap://127.0.0.1:{port}",
        "user.dn": f"uid={{user}},ou=people,{BASE}",
        "max.connections": "1000",
    }
    return {f"{_SASL}odradek.ldap.{name}": text for name, text in given.items()}


async def _run(
    directory: Path,
    settings: Mapping[str, str],
    logins: Logins,
    options: argparse.Namespace,
) -> int:
    too_long = 0
    # In a thread, because starting waits, and the directory's proxy must not.
    manager = secured_broker(directory / "secured", **settings)
    broker = await asyncio.to_thread(manager.__enter__)
    try:
        await _prepare(broker)
        for name, pair in logins.items():
            if options.only and name not in options.only:
                continue
            seen = await measure(broker, pair, options.rate, options.seconds)
            print(f"{name:14}", json.dumps(seen), flush=True)
            pause_ms = float(str(seen["longest_pause_ms"]))
            too_long += pause_ms > GOAL_MS or seen["mistakes"] != 0
    finally:
        manager.__exit__(None, None, None)
    print(f"longer than {GOAL_MS:g} ms, or wrong: {too_long} of {len(options.only or logins)}")
    return 1 if too_long else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.log_ins", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--rate", type=int, default=50, help="log-ins a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each mechanism")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    arguments = parser.parse_args()
    return asyncio.run(run(arguments))


if __name__ == "__main__":
    sys.exit(main())
