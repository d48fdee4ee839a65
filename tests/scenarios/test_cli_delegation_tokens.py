"""`odradek delegation-tokens` as an operator types it."""

import asyncio
import json
import sys

from tests.unit.broker.harness import serving_on_sockets
from tests.unit.broker.test_delegation_tokens import SECURED, admin

BOSS = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=boss")
SECRET = "sasl.password=secret"


async def odradek(bootstrap: str, *words: str, login: tuple[str, ...] = (*BOSS, SECRET)) -> str:
    """Returns what `odradek delegation-tokens` prints; errors begin with `error: `."""
    flags = [flag for one in login for flag in ("--command-property", one)]
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "odradek.cli", "delegation-tokens", *words),
        *("--bootstrap-server", bootstrap, *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaint = await program.communicate()
    assert b"Traceback" not in complaint
    return f"error: {complaint.decode()}" if program.returncode else out.decode()


async def test_the_life_of_a_token() -> None:
    async with serving_on_sockets(SECURED) as broker:
        at = broker.bootstrap
        created = await odradek(at, "--create", "--renewer-principal", "User:bob", "--json")
        token = json.loads(created)
        assert (token["owner"], token["renewers"]) == ("User:boss", ["User:bob"])
        described = await odradek(at, "--describe", "--owner-principal", "User:boss")
        lines = described.splitlines()
        assert lines[0] == "Total number of tokens : 1"
        assert lines[2].split()[:3] == ["TOKENID", "HMAC", "OWNER"]
        assert lines[3].split()[:3] == [token["tokenId"], token["hmac"], "User:boss"]
        hmac = ("--hmac", token["hmac"])
        renewed = await odradek(at, "--renew", "--renew-time-period", "60000", *hmac)
        assert renewed.startswith("Completed renew operation. New expiry date : 20")
        ended = await odradek(at, "--expire", "--expiry-time-period", "-1", *hmac)
        assert ended.startswith("Completed expire operation.")
        missing = await odradek(at, "--renew", *hmac)
        assert "no token has this HMAC" in missing


async def test_errors_say_what_to_do() -> None:
    without = {name: text for name, text in SECURED.items() if "secret.key" not in name}
    async with serving_on_sockets(without) as broker:
        # The word secret is hidden: it is the password of this test.
        assert "on the brokers, the same on all" in await odradek(broker.bootstrap, "--create")
    async with serving_on_sockets({"delegation.token.secret.key": "key"}) as broker:
        assert "log in by SASL" in await odradek(broker.bootstrap, "--create", login=())
    async with serving_on_sockets(SECURED) as broker, admin(broker, "boss") as boss:
        token = await boss.create_delegation_token()
        eve = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=eve")
        login = (*eve, SECRET)
        for words, advice in (
            (("--create", "--owner-principal", "User:ada"), "CreateTokens"),
            (("--renew", "--hmac", token.password), "its owner and its renewers"),
            (("--renew", "--hmac", "%%%"), "base 64"),
            (("--renew",), "--hmac"),
            (("--expire", "--hmac", "eA=="), "--expiry-time-period"),
            (("--create", "--owner-principal", "ada"), "User:ada"),
            (("--describe", "--hmac", "eA=="), "--hmac does not go with --describe"),
            (("--create", "--describe"), "exactly one of"),
        ):
            said = await odradek(broker.bootstrap, *words, login=login)
            assert said.startswith("error: ")
            assert advice in said, words
            assert said.count("\n") == 1, said
