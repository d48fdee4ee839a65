"""What somebody can find out who tries names without a password, and what that costs the broker."""

import base64
import json
import logging
from typing import Final

import pytest

from odradek.client import Admin
from odradek.client.admin.users import ScramUpsertion
from odradek.metadata import Node
from odradek.metadata.memory import MemorySession
from odradek.protocol.errors import ErrorCode
from odradek.security.scram import MAX_NAME_LENGTH, ScramMechanism
from odradek.world import MemoryDisk, World
from tests.unit.broker.authentication.wire import Wire, listener, wire
from tests.unit.broker.harness import serving_on_sockets

SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SASL: Final = listener(
    "SASL_PLAINTEXT",
    sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    plain_sasl_jaas_config=(
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_boss=secret;"
    ),
    scram__sha__256_sasl_jaas_config=SCRAM,
    scram__sha__512_sasl_jaas_config=SCRAM,
)
TOKENS: Final = {**SASL, "delegation.token.secret.key": "a secret of all brokers"}


async def challenge(client: Wire, name: str, mechanism: ScramMechanism, more: str = "") -> bytes:
    """Returns the salt that a client is sent who gives this name."""
    await client.handshake(mechanism.kafka_name)
    answer = await client.authenticate(f"n,,n={name},r=abc{more}".encode())
    assert not answer.error_code
    fields = dict(part.split("=", 1) for part in answer.auth_bytes.decode().split(","))
    return base64.b64decode(fields["s"])


async def test_salts_do_not_tell_which_users_exist() -> None:
    """A user who exists has a salt for each mechanism, and none of them is that of a token."""
    async with serving_on_sockets(TOKENS) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "boss",
            "sasl.password": "secret",
        }
        async with Admin(settings) as admin:
            for mechanism in ScramMechanism:
                upsertion = ScramUpsertion.of_password("ada", "secret", mechanism)
                await admin.alter_user_scram_credentials([upsertion])
        for name in ("ada", "nobody"):
            salts = []
            for mechanism in ScramMechanism:
                for more in ("", ",tokenauth=true"):
                    async with wire(broker) as client:
                        salts.append(await challenge(client, name, mechanism, more))
            assert len(set(salts)) == 4, name


async def test_no_name_of_a_stranger_makes_a_large_request_to_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A path in ZooKeeper has nine characters for some of a name's. ZooKeeper closes connections
    on which more than a megabyte arrives, so every such log-in would cut off the broker."""
    read, paths = MemorySession.read, list[str]()

    async def noted(session: MemorySession, path: str) -> Node | None:
        paths.append(path)
        return await read(session, path)

    monkeypatch.setattr(MemorySession, "read", noted)
    async with serving_on_sockets(SASL) as broker:
        for name in ("€" * 5_000, "€" * MAX_NAME_LENGTH, "nobody"):
            async with wire(broker) as client:
                assert await challenge(client, name, ScramMechanism.SHA_256)
    assert "/config/users/nobody" in paths
    assert max(map(len, paths)) < 10 * MAX_NAME_LENGTH


async def test_failed_log_ins_write_little(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise long names would roll the real events out of the audit log."""
    caplog.set_level(logging.INFO, "odradek.authentication")
    world = World(disk=MemoryDisk())
    audited = {"odradek.audit.sink": "file", "odradek.audit.file": "/audit.log"}
    name = "x" * 15_000
    async with serving_on_sockets({**SASL, **audited}, world) as broker:
        async with wire(broker) as client:
            await client.handshake("PLAIN")
            answer = await client.authenticate(f"\0{name}\0secret".encode())
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        async with wire(broker) as client:
            await challenge(client, name, ScramMechanism.SHA_256)
            answer = await client.authenticate(b"c=biws,r=x,p=x")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        async with wire(broker) as client:
            await client.handshake("M" * 30_000)
    failures = [json.loads(line) for line in world.disk.read("/audit.log").decode().splitlines()]
    assert [event["result"] for event in failures] == ["failure"] * 3
    assert all(len(json.dumps(event)) < 2000 for event in failures)
    assert all(len(record.getMessage()) < 2000 for record in caplog.records)
