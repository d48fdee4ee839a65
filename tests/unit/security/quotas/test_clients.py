"""The table of what clients have used: shared, and bounded for any number of client ids."""

import tracemalloc

import pytest

from odradek.security.quotas.clients import ClientQuotas
from odradek.security.quotas.entities import (
    CONNECTION_CREATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    QuotaEntity,
)
from odradek.security.quotas.rates import Windows


def make(max_entries: int = 50_000) -> ClientQuotas:
    return ClientQuotas(Windows(), Windows(), max_entries=max_entries)


def produce(quotas: ClientQuotas, client_id: str, size: float, now_s: float) -> float:
    limit = quotas.limits_of("ada", client_id).produce
    assert limit is not None
    return quotas.use(PRODUCER_BYTE_RATE, limit, size, now_s)


def test_client_ids_of_a_user_share_the_users_quota() -> None:
    quotas = make()
    quotas.follow({QuotaEntity(user="ada"): {PRODUCER_BYTE_RATE: 100.0}})
    assert produce(quotas, "a", 100, 5.0) == 0
    assert produce(quotas, "b", 50, 5.0) == pytest.approx(0.5)
    assert len(quotas) == 1


def test_a_changed_limit_applies_to_what_was_used_before() -> None:
    quotas = make()
    quotas.follow({QuotaEntity(client_id="a"): {PRODUCER_BYTE_RATE: 100.0}})
    assert produce(quotas, "a", 1100, 5.0) == pytest.approx(10)
    quotas.follow({QuotaEntity(client_id="a"): {PRODUCER_BYTE_RATE: 1000.0}})
    assert quotas.limits_of("ada", "a").produce is not None
    assert quotas.limits_of("ada", "a").fetch is None
    quotas.follow({})
    assert quotas.limits_of("ada", "a").produce is None


def test_a_hundred_thousand_client_ids_stay_bounded_and_are_forgotten() -> None:
    quotas = make()
    quotas.follow({QuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 1000.0}})
    tracemalloc.start()
    try:
        for number in range(100_000):
            produce(quotas, f"client-{number}", 10, now_s=100.0 + number / 1e6)
        used_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(quotas) == 50_000
    assert used_bytes < 40 << 20
    # As time passes a new client makes room for itself; the rest is forgotten by and by.
    produce(quotas, "another", 10, now_s=200.0)
    assert len(quotas) == 49_999
    assert sum(quotas.expire(200.0, 500) for _ in range(200)) >= 49_998
    assert len(quotas) == 1


def test_what_is_owed_is_not_forgotten() -> None:
    quotas = make(max_entries=3)
    quotas.follow({QuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 10.0}})
    produce(quotas, "debtor", 10_000, now_s=5.0)
    for number in range(50):
        quotas.expire(now_s=30.0 + number, steps=5)
    limit = quotas.limits_of("ada", "debtor").produce
    assert limit is not None
    assert quotas.owed_s(PRODUCER_BYTE_RATE, limit, 80.0) == pytest.approx(5 - 1 + 1000 - 80)


def test_connections_beyond_the_rate_of_their_address_do_not_count() -> None:
    quotas = make()
    quotas.follow({QuotaEntity(ip="192.0.2.1"): {CONNECTION_CREATION_RATE: 5.0}})
    accepted = 0
    for step in range(20_000):  # twenty seconds, a thousand connections a second
        accepted += quotas.connect("192.0.2.1", 100 + step / 1000) == 0
        assert quotas.connect("192.0.2.2", 100 + step / 1000) == 0
    assert accepted / 20 == pytest.approx(5, rel=0.1)
    refused_s = quotas.connect("192.0.2.1", 120.0)
    assert 0 < refused_s <= 1
