"""A broker, clients and a KDC of MIT, for the tests of GSSAPI."""

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from odradek.broker import Broker
from odradek.client import Admin
from odradek.client.settings.shared import AdminSettings
from tests.kdc import Kdc, jaas
from tests.unit.broker.authentication.wire import listener

SERVICE = "kafka/localhost"


def broker_properties(kdc: Kdc, keytab: str = "broker", **more: str) -> Mapping[str, str]:
    return {
        **listener(
            "SASL_PLAINTEXT",
            sasl_enabled_mechanisms="GSSAPI",
            gssapi_sasl_jaas_config=jaas(f"{kdc.directory}/{keytab}.keytab", SERVICE),
            **more,
        ),
        "listeners": "MAIN://localhost:0",
    }


def client_properties(
    kdc: Kdc, user: str = "ada", principal: str = "", **more: str
) -> dict[str, str]:
    line = jaas(f"{kdc.directory}/{user}.keytab", principal or user)
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": line,
        **{name.replace("_", "."): text for name, text in more.items()},
    }


@asynccontextmanager
async def admin(broker: Broker, properties: Mapping[str, str]) -> AsyncIterator[Admin]:
    settings = {"default.api.timeout.ms": "8000", **properties}
    async with Admin({"bootstrap.servers": broker.bootstrap, **settings}) as found:
        yield found


@contextmanager
def log_ins() -> Iterator[list[str]]:
    """The principals of the log-ins meanwhile, as the broker's log has them."""
    seen: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            seen.extend(re.findall(r" is (User:\S+) on MAIN, by GSSAPI", text))
            seen.extend(re.findall(r" failed .*", text))

    logger, notes = logging.getLogger("odradek.authentication"), Notes()
    before = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.DEBUG)
    try:
        yield seen
    finally:
        logger.removeHandler(notes)
        logger.setLevel(before)


async def principals(broker: Broker, *clients: Mapping[str, str]) -> list[str]:
    """Returns who the broker takes these clients for."""
    with log_ins() as seen:
        for properties in clients:
            async with admin(broker, properties) as client:
                await client.list_topics()
    return list(dict.fromkeys(seen))


async def first_token(kdc: Kdc, user: str = "ada", service: str = "kafka") -> bytes:
    properties = client_properties(kdc, user) | {"sasl.kerberos.service.name": service}
    from odradek.client.login import login_of
    from odradek.world.randomness import Randomness

    login = login_of(AdminSettings.from_properties(properties), Randomness())
    return (await login.exchange("localhost")).first_message()
