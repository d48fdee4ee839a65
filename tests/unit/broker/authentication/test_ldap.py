"""PLAIN with passwords that a real directory checks: who is let in, as whom, and what may not be
stalled by a directory that is slow."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from odradek.broker import Broker
from odradek.broker.broker import BrokerCannotStart
from odradek.client import Admin
from odradek.config import BrokerSettings
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.security.ldap.connection import DirectoryConnection, DirectoryFailed, Server
from odradek.security.ldap.directory import Directory, Layout, Member
from odradek.security.ldap.names import parse_filter
from odradek.security.ldap.users import DirectoryUsers, Limits
from odradek.security.sasl.server.exchange import Login, LoginFailed
from odradek.security.sasl.server.plain import JaasUsers
from odradek.security.tls.contexts import client_context
from odradek.security.tls.settings import TlsSettings
from odradek.world import MemoryDisk, OsDisk, World
from tests.directory_server import (
    BASE,
    BIND_DN,
    BIND_PASSWORD,
    DirectoryServer,
    running_directory,
    slapd,
)
from tests.needs import need
from tests.unit.broker.authentication.wire import listener, wire
from tests.unit.broker.harness import serving_on_sockets

TEMPLATE = f"uid={{user}},ou=people,{BASE}"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_broker="secret" user_boss="secret";'
)
WRONG = "Authentication failed: Invalid username or password"


@pytest.fixture(scope="module")
def ldap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectoryServer]:
    with running_directory(need(slapd), tmp_path_factory.mktemp("directory")) as server:
        yield server


def properties(server: DirectoryServer, **more: str) -> dict[str, str]:
    given = {"urls": server.url, "user.dn": TEMPLATE, **more}
    return {
        **listener("SASL_PLAINTEXT", sasl_enabled_mechanisms="PLAIN", plain_sasl_jaas_config=JAAS),
        **{f"odradek.ldap.{name.replace('_', '.')}": text for name, text in given.items()},
    }


SEARCH = {
    "user_dn": "",
    "user_base": f"ou=people,{BASE}",
    "bind_dn": BIND_DN,
    "bind_password": BIND_PASSWORD,
}
GROUPS = {"group_base": f"ou=groups,{BASE}"}


@pytest.mark.parametrize("way", [{}, SEARCH, {**SEARCH, "bind_dn": "", "bind_password": ""}])
async def test_log_ins(ldap: DirectoryServer, way: dict[str, str]) -> None:
    async with serving_on_sockets(properties(ldap, **way)) as broker:
        for user, password in (
            ("ada", "ada secret"),
            ("a,b=c+d", "a,b=c+d secret"),
            ("*", "* secret"),
            ("élodie", "élodie secret"),
            ("broker", "secret"),
        ):
            async with wire(broker) as client:
                assert await client.log_in(user, password) == 0, user
                assert (await client.metadata()).brokers
        for user, password in (
            ("ada", "wrong"),
            ("ada", "secret"),
            ("nobody", "ada secret"),
            ("*)(uid=*", "ada secret"),
            ("ada)(objectClass=*", "ada secret"),
            ("ad*", "ada secret"),
            ("ada,ou=people", "ada secret"),
            ("\\61da", "ada secret"),
            ("broker", "broker secret"),
        ):
            async with wire(broker) as client:
                await client.handshake()
                answer = await client.authenticate(f"\0{user}\0{password}".encode())
                assert (answer.error_code, answer.error_message) == (58, WRONG), user


async def test_what_is_refused_before_the_directory_is_asked(ldap: DirectoryServer) -> None:
    async with serving_on_sockets(properties(ldap)) as broker:
        for token in (
            b"\0ada\0",
            b"\0\0ada secret",
            b"\0ada\0ada secret\0x",
            b"\0\0",
            b"\0ada\0\xff",
        ):
            async with wire(broker) as client:
                await client.handshake()
                assert (await client.authenticate(token)).error_code == 58, token
                assert await client.is_closed()


def directory(server: DirectoryServer, *, url: str = "", **changes: Any) -> Directory:
    layout = Layout(
        user_dn=TEMPLATE,
        user_base=None,
        user_filter=parse_filter("(uid={user})", ("{user}",)),
        name_attribute="uid",
        groups_attribute=None,
        group_base=None,
        group_filter=parse_filter("(member={dn})", ("{dn}",)),
        group_name_attribute="cn",
    )
    tls = TlsSettings.from_properties(
        {"ssl.truststore.location": str(server.truststore), "ssl.truststore.type": "PEM"}
    )
    chosen = Server.parse(url or server.url, starts_tls=bool(url))
    return Directory([chosen], client_context(tls, OsDisk().read), layout._replace(**changes))


@pytest.mark.parametrize("typed", ["ada", "ADA", "Ada", " ada", "ada ", "robert"])
async def test_one_user_is_one_principal(ldap: DirectoryServer, typed: str) -> None:
    """Or else a rule that denies something to `User:ada` would not be about `User:ADA`."""
    by_template = directory(ldap)
    by_search = directory(ldap, user_dn=None, user_base=f"ou=people,{BASE}")
    secret = "bob secret" if typed == "robert" else "ada secret"
    for way in (by_template, by_search):
        member = await way.log_in(typed, secret)
        assert member is None or member.name == typed.strip().lower(), member
    if typed == "ADA":
        assert await by_search.log_in(typed, secret) == Member("ada", ())


async def test_groups(ldap: DirectoryServer) -> None:
    base = {"group_base": f"ou=groups,{BASE}"}
    assert await directory(ldap, **base).log_in("ada", "ada secret") == Member(
        "ada", ("readers", "shop")
    )
    by_attribute = directory(ldap, groups_attribute="seeAlso")
    assert await by_attribute.log_in("ada", "ada secret") == Member("ada", ("shop",))
    assert await directory(ldap, **base).log_in("boss", "boss secret") == Member("boss", ())


@pytest.mark.parametrize("kind", ["ldaps", "starttls"])
async def test_tls(ldap: DirectoryServer, kind: str) -> None:
    plain = f"ldap://localhost:{ldap.port}"
    url = ldap.tls_url if kind == "ldaps" else plain
    assert await directory(ldap, url=url).log_in("ada", "ada secret")
    system = client_context(TlsSettings.from_properties({}), OsDisk().read)
    trusting_nobody = directory(ldap, url=url)
    trusting_nobody._tls = system
    with pytest.raises(DirectoryFailed, match="not trusted"):
        await trusting_nobody.log_in("ada", "ada secret")


async def test_what_the_directory_cannot_say(ldap: DirectoryServer) -> None:
    down = directory(ldap, url="ldap://127.0.0.1:1")
    with pytest.raises(DirectoryFailed, match=r"127\.0\.0\.1:1"):
        await down.log_in("ada", "ada secret")
    with pytest.raises(DirectoryFailed, match="invalid credentials"):
        await directory(ldap, group_base=BASE, bind_dn=BIND_DN, bind_password="wrong").log_in(
            "ada", "ada secret"
        )
    with pytest.raises(DirectoryFailed, match="has no mail"):
        await directory(ldap, name_attribute="mail").log_in("ada", "ada secret")
    # A second server is asked if the first one is down.
    both = directory(ldap)
    both._servers = (*down._servers, *both._servers)
    assert await both.log_in("ada", "ada secret")
    async with stalling(ldap, answers=b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        with pytest.raises(DirectoryFailed):
            await directory(ldap, url=url).log_in("ada", "ada secret")


GOOD = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00"


@pytest.mark.parametrize("place", range(len(GOOD)))
async def test_a_malformed_answer_is_no_accident(place: int) -> None:
    """Every byte of a good answer, with every other value. sansldap raises `IndexError` for some,
    for instance for a message id of no bytes."""
    for value in range(256):
        answer = bytearray(GOOD)
        answer[place] = value
        reader, writer = asyncio.StreamReader(), Mock(asyncio.StreamWriter)
        reader.feed_data(bytes(answer))
        reader.feed_eof()
        connection = DirectoryConnection(reader, writer)
        with suppress(DirectoryFailed):
            await connection.bind("uid=ada", "secret")


# A directory that is slow


@asynccontextmanager
async def stalling(
    server: DirectoryServer, delay_s: float = 0.0, answers: bytes = b""
) -> AsyncIterator[str]:
    """A proxy before the directory whose answers are late, or are something else."""

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause: float
    ) -> None:
        while data := await reader.read(65_536):
            await asyncio.sleep(pause)
            writer.write(data)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answers:
            writer.write(answers)
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            await asyncio.gather(pump(reader, back, 0), pump(there, writer, delay_s))
        except ConnectionError:
            pass
        finally:
            back.close()
            writer.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with proxy:
        yield f"ldap://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"


async def test_a_slow_directory_stalls_nobody(ldap: DirectoryServer) -> None:
    async with stalling(ldap, 1.0) as url:
        slow = properties(ldap, urls=url, max_connections="4", max_waiting="3")
        async with serving_on_sockets(slow) as broker:

            async def log_in() -> int:
                async with wire(broker) as client:
                    return await client.log_in("ada", "ada secret")

            waiting = [asyncio.ensure_future(log_in()) for _ in range(10)]
            begun_s = time.monotonic()
            async with wire(broker) as client:
                assert await client.log_in("broker", "secret") == 0
                assert (await client.metadata()).brokers
            assert time.monotonic() - begun_s < 1.0, "users of the JAAS line do not wait"
            codes = await asyncio.gather(*waiting)
            # 4 are checked, 3 wait for their turn, and 3 are refused at once.
            assert sorted(codes) == [0] * 7 + [58] * 3


async def test_a_directory_that_hangs(ldap: DirectoryServer) -> None:
    async with stalling(ldap, 60.0) as url:
        hanging = properties(ldap, urls=url, timeout_ms="200")
        async with serving_on_sockets(hanging) as broker, wire(broker) as client:
            begun_s = time.monotonic()
            await client.handshake()
            answer = await client.authenticate(b"\0ada\0ada secret")
            assert answer.error_code == 58
            assert time.monotonic() - begun_s < 10


async def test_answers_may_be_remembered(ldap: DirectoryServer) -> None:
    now_s = 0.0
    limits = Limits(timeout_s=10, max_connections=1, max_waiting=0, cache_s=5)
    known = directory(ldap)
    users = DirectoryUsers(known, JaasUsers({}), limits, b"secret", lambda: now_s)
    assert await users.check("ada", "ada secret") == Login("ada")
    assert await users.check("ada", "wrong") is None
    known._servers = ()
    assert await users.check("ada", "ada secret") == Login("ada")
    assert await users.check("ada", "wrong") is None
    assert b"ada" not in b"".join(users._remembered)
    now_s = 6.0
    with pytest.raises(LoginFailed):
        await users.check("ada", "ada secret")


async def test_a_user_of_the_directory_cannot_become_a_local_one(ldap: DirectoryServer) -> None:
    limits = Limits(timeout_s=10, max_connections=1, max_waiting=0, cache_s=0)
    local = JaasUsers({"user_boss": "secret"})
    users = DirectoryUsers(directory(ldap), local, limits, b"secret", time.monotonic)
    assert await users.check("boss", "boss secret") is None
    with pytest.raises(LoginFailed, match="JAAS"):
        await users.check("BOSS", "boss secret")


# Groups are principals


async def test_rules_for_groups(ldap: DirectoryServer) -> None:
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker",
    }
    async with serving_on_sockets({**properties(ldap, **GROUPS), **rules}) as broker:
        async with admin(broker, "broker", "secret") as boss:
            await boss.create_topic("orders")
            entry = AccessEntry("Group:shop", "*", Operation.DESCRIBE, Permission.ALLOW)
            await boss.create_acls([Acl(ResourcePattern(ResourceType.TOPIC, "orders"), entry)])
        for user, sees in (("ada", True), ("bob", False)):
            async with admin(broker, user, f"{user} secret") as client:
                assert ("orders" in await client.list_topics()) is sees


@asynccontextmanager
async def admin(broker: Broker, user: str, password: str) -> AsyncIterator[Admin]:
    async with Admin(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username=user,
        sasl_password=password,
    ) as client:
        yield client


# Settings


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"urls": "example.com"}, "odradek.ldap.urls"),
        ({"user_dn": ""}, "odradek.ldap.user.base"),
        ({"user_base": BASE}, "odradek.ldap.user.base"),
        ({"user_dn": "uid=ada"}, "{user}"),
        ({"bind_dn": BIND_DN}, "odradek.ldap.bind.password"),
        ({"user_filter": "(uid={user}*)"}, "odradek.ldap.user.filter"),
        ({"group_filter": "(cn=x)"}, "odradek.ldap.group.filter"),
        ({"ssl_truststore_location": "/missing.pem", "urls": "ldaps://localhost"}, "missing.pem"),
        ({"max_connections": "0"}, "odradek.ldap.max.connections"),
    ],
)
async def test_settings_that_cannot_work(changes: dict[str, str], complaint: str) -> None:
    given = properties(DirectoryServer(1, 2, Path("/ca.pem")), **changes)
    given |= {"odradek.metadata.store": "memory", "log.dirs": "/data"}

    async def start() -> None:
        await Broker(BrokerSettings.from_properties(given), World(disk=MemoryDisk())).run()

    with pytest.raises((BrokerCannotStart, ValueError)) as refused:
        await start()
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
