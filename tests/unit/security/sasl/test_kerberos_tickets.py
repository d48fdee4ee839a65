"""Tickets of our clients: from a keytab and from a cache; renewed, replaced, or told of."""

import asyncio
import time
from contextlib import suppress
from weakref import ref

import pytest

from odradek.client.errors import (
    AuthenticationFailed,
)
from odradek.client.ticket_renewal import TicketRenewal
from odradek.world.workers import AbandonableCalls
from tests.kdc import Kdc
from tests.unit.broker.harness import serving_on_sockets
from tests.unit.security.sasl.kerberos_broker import (
    admin,
    broker_properties,
    client_properties,
    principals,
)


async def test_a_log_in_with_a_ticket_cache(kdc: Kdc) -> None:
    cache = f"FILE:{kdc.directory}/bob.ccache"
    line = (
        "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true"
        f' ticketCache="{cache}" serviceName="kafka";'
    )
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line}
    async with serving_on_sockets(broker_properties(kdc)) as broker:
        async with admin(broker, properties) as client:
            with pytest.raises(AuthenticationFailed, match="get one with kinit"):
                await client.list_topics()
        kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache)
        assert await principals(broker, properties) == ["User:bob"]
        kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache, "-l", "1s")
        end_s = time.monotonic() + 20
        while True:
            assert time.monotonic() < end_s, "a ticket of one second still counts"
            await asyncio.sleep(0.2)
            async with admin(broker, properties) as client:
                with suppress(AuthenticationFailed):
                    await client.list_topics()
                    continue
                with pytest.raises(AuthenticationFailed, match="Ticket expired: get a new one"):
                    await client.list_topics()
                break


def of_cache(kdc: Kdc, name: str) -> tuple[str, dict[str, str]]:
    """Returns a ticket cache, and the properties of a client that uses it."""
    cache = f"FILE:{kdc.directory}/{name}.ccache"
    line = (
        "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true"
        f' ticketCache="{cache}" serviceName="kafka";'
    )
    return cache, {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line}


async def test_a_ticket_cache_is_renewed_before_it_ends(kdc: Kdc) -> None:
    cache, properties = of_cache(kdc, "renewed")
    kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache, "-l", "3s", "-r", "1h")
    begun_s = time.monotonic()
    often = broker_properties(kdc, connections_max_reauth_ms="400")
    async with serving_on_sockets(often) as broker, admin(broker, properties) as client:
        # Two tickets have ended by then.
        while time.monotonic() - begun_s < 7:
            await client.list_topics()
            await asyncio.sleep(0.1)
    assert len(await principals_of(cache)) == 1


async def test_tickets_of_a_keytab_are_replaced_before_they_end(kdc: Kdc) -> None:
    """Of the client, and of the broker that logs in at others by its own keytab."""
    kdc.keytab("brief", "brief")
    kdc.admin("modprinc", "-maxlife", "2 seconds", "brief")
    begun_s = time.monotonic()
    often = broker_properties(kdc, connections_max_reauth_ms="400")
    properties = client_properties(kdc, "brief")
    async with serving_on_sockets(often) as broker, admin(broker, properties) as client:
        while time.monotonic() - begun_s < 5:
            await client.list_topics()
            await asyncio.sleep(0.1)


async def principals_of(cache: str) -> set[str]:
    """Returns whose tickets there are now; a ticket that has ended is none."""
    import gssapi

    found = gssapi.Credentials(usage="initiate", store={"ccache": cache})
    return {str(found.name)} if found.lifetime else set()


async def test_a_ticket_that_cannot_be_renewed_is_told(
    kdc: Kdc, caplog: pytest.LogCaptureFixture
) -> None:
    cache, properties = of_cache(kdc, "short")
    kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache, "-l", "2s")
    async with (
        serving_on_sockets(broker_properties(kdc)) as broker,
        admin(broker, properties) as client,
    ):
        await client.list_topics()
        async with asyncio.timeout(20):
            while "by kinit -r?" not in caplog.text:  # noqa: ASYNC110 - a thread has to end
                await asyncio.sleep(0.05)


def test_nobody_renews_the_tickets_of_a_client_that_is_gone(kdc: Kdc) -> None:
    renewal = TicketRenewal(None, lambda: 1.2, AbandonableCalls("test"))
    gone = ref(renewal)

    async def use() -> None:
        renewal.begin()
        while renewal._timer is None:  # noqa: ASYNC110 - a thread has to end
            await asyncio.sleep(0.01)

    async def wait() -> None:
        nonlocal renewal
        await use()
        del renewal
        assert gone() is None

    asyncio.run(wait())
