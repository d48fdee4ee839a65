"""Who may do nothing does not learn by names what there is.

A user without any permission asks every API, in every version, about a topic, a group, a
transactional id and a user that exist, and about others that do not. Both answers must be the same,
byte for byte. Ids of topics are no names: as in Kafka, who knows one learns that there is a topic,
and not what it is called.
"""

import asyncio
from typing import Any, Final

from odradek.broker.handlers import served_apis
from odradek.client import Admin, Consumer, Producer
from odradek.client.admin.users import ScramUpsertion
from odradek.protocol.apis import AnyApi
from odradek.protocol.headers import encode_request
from odradek.protocol.layout import Field, StructType
from tests.unit.broker.authentication.wire import Wire, listener, wire
from tests.unit.broker.harness import serving_on_sockets

# Of the same length, so that answers are.
EXISTS, MISSING = "hidden-a", "hidden-b"
_NUMBERS: Final = (0, 1, 2, -1)
# The log-in has tests of its own.
_LOG_IN: Final = {"SaslHandshake", "SaslAuthenticate"}
_CLOSED: Final = b"closed"
BROKER: Final = {
    **listener(
        "SASL_PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN",
        plain_sasl_jaas_config=(
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            " user_boss=secret user_eve=secret;"
        ),
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:boss",
}


async def make_what_exists(bootstrap: str) -> None:
    client = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "boss",
        "sasl.password": "secret",
    }
    async with Admin(client) as admin:
        await admin.create_topic(EXISTS)
        await admin.alter_user_scram_credentials([ScramUpsertion.of_password(EXISTS, "secret")])
    async with Producer({**client, "transactional.id": EXISTS}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(EXISTS, b"value")
    group = {"group.id": EXISTS, "auto.offset.reset": "earliest"}
    async with Consumer({**client, **group}) as consumer:
        consumer.subscribe([EXISTS])
        async with asyncio.timeout(20):
            while not await consumer.poll(timeout_ms=100):
                pass
        await consumer.commit()


def filled(made_of: StructType, version: int, name: str, number: int) -> Any:
    """Returns a message in which every text is a name, and every list has one element."""
    return made_of(
        **{
            field.name: _value(field.kind, field, version, name, number)
            for field in made_of.fields
            if version in field.versions
        }
    )


def _value(kind: str, field: Field, version: int, name: str, number: int) -> Any:
    element = field.element
    if kind == "array":
        inner = "struct" if isinstance(element, StructType) else str(element)
        return [_value(inner, field, version, name, number)]
    if kind == "struct":
        assert isinstance(element, StructType)
        return filled(element, version, name, number)
    unsigned = max(number, 0)
    numbers = {"boolean": bool(number & 1), "uint16": unsigned, "uint32": unsigned}
    others = {"string": name, "bytes": b"x", "records": None, "uuid": bytes(16), "float64": 1.0}
    return {**others, **numbers}.get(kind, number)


async def answer(client: Wire, api: AnyApi, version: int, name: str, number: int) -> bytes:
    request = filled(api.request, version, name, number)
    for part in encode_request(request, version, 7, "eve"):
        client.writer.write(bytes(part))  # type: ignore[arg-type]  # no part of these is in a file
    try:
        async with asyncio.timeout(10):
            return (await client.receive_frame()).replace(name.encode(), b"its name")
    except (asyncio.IncompleteReadError, ConnectionError):
        return _CLOSED


async def test_names_tell_nothing_to_whom_nothing_is_allowed() -> None:
    asked = 0
    async with serving_on_sockets(BROKER) as broker:
        await make_what_exists(broker.bootstrap)
        for api in served_apis().values():
            if api.name in _LOG_IN:
                continue
            for version in range(api.min_version, api.max_version + 1):
                async with wire(broker) as first, wire(broker) as second:
                    assert await first.log_in("eve") == await second.log_in("eve") == 0
                    for number in _NUMBERS:
                        answers = [
                            await answer(client, api, version, name, number)
                            for client, name in ((first, EXISTS), (second, MISSING))
                        ]
                        assert answers[0] == answers[1], (api.name, version, number)
                        asked += 1
                        if answers[0] == _CLOSED:
                            break
    assert asked > 700
