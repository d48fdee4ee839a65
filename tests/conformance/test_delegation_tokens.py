"""Java's clients create a delegation token, log in with it, and end it."""

import asyncio
from pathlib import Path

from benchmarks.apache_kafka import SHORT_TOOL_JVM_FLAGS, ApacheKafka, java_program
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.unit.broker.harness import serving_on_sockets
from tests.unit.broker.test_delegation_tokens import SECURED, admin

STORY = Path(__file__).resolve().parent.parent / "java" / "TokenStory.java"


async def test_the_story_of_a_token(kafka_home: ApacheKafka) -> None:
    async with serving_on_sockets(SECURED) as broker:
        async with admin(broker, "boss") as boss:
            entry = AccessEntry("User:ada", "*", Operation.WRITE, Permission.ALLOW)
            await boss.create_acls([Acl(ResourcePattern(ResourceType.TOPIC, "orders"), entry)])
        program = await asyncio.create_subprocess_exec(
            java_program(),
            *SHORT_TOOL_JVM_FLAGS,
            "-cp",
            f"{kafka_home.libraries}/*",
            str(STORY),
            broker.bootstrap,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(100):
                told, _ = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
    # The clients log on standard output too.
    assert [line for line in told.decode().splitlines() if " ERROR " not in line] == [
        "created for User:ada by User:boss",
        "described 1",
        "renewed true",
        "sent by SCRAM-SHA-256",
        "another token: UnsupportedByAuthenticationException",
        "sent by SCRAM-SHA-512",
        "another token: UnsupportedByAuthenticationException",
        "forged: SaslAuthenticationException",
        "ended: SaslAuthenticationException",
    ]
