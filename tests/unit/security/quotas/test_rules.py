"""Whose quota applies: Kafka's eight levels against an oracle that is written from the paths."""

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.metadata.quota_nodes import quota_path
from odradek.security.quotas.entities import DEFAULT, PRODUCER_BYTE_RATE, QuotaEntity
from odradek.security.quotas.rules import Limit, QuotaRules

USERS = ("ada", "bob", "a/b %")
CLIENTS = ("app", "loader", "x~y")

entities = st.builds(
    QuotaEntity,
    user=st.sampled_from([None, DEFAULT, *USERS]),
    client_id=st.sampled_from([None, DEFAULT, *CLIENTS]),
).filter(lambda entity: entity != QuotaEntity())

# As the documentation of Kafka lists them; U and C stand for the quoted names.
PATHS = (
    "/config/users/U/clients/C",
    "/config/users/U/clients/<default>",
    "/config/users/U",
    "/config/users/<default>/clients/C",
    "/config/users/<default>/clients/<default>",
    "/config/users/<default>",
    "/config/clients/C",
    "/config/clients/<default>",
)
QUOTED = {"ada": "ada", "bob": "bob", "a/b %": "a%2Fb%20%25", "app": "app", "loader": "loader",
          "x~y": "x%7Ey"}  # fmt: skip


def oracle(nodes: dict[str, float], user: str, client_id: str) -> tuple[float, str] | None:
    """The first path with a quota; and who shares it, which is in Kafka the tags of a metric."""
    for path in PATHS:
        full = path.replace("/U", f"/{QUOTED[user]}").replace("/C", f"/{QUOTED[client_id]}")
        if full in nodes:
            by_user = "users" in path
            by_client = "clients" in path
            shared = f"user={user if by_user else ''} client-id={client_id if by_client else ''}"
            return nodes[full], shared
    return None


@settings(max_examples=500, deadline=None)
@given(
    st.dictionaries(entities, st.integers(1, 10**9).map(float), max_size=14),
    st.sampled_from(USERS),
    st.sampled_from(CLIENTS),
)
def test_the_first_of_eight_levels_applies(
    quotas: dict[QuotaEntity, float], user: str, client_id: str
) -> None:
    rules = QuotaRules(
        {entity: {PRODUCER_BYTE_RATE: value} for entity, value in quotas.items()},
        PRODUCER_BYTE_RATE,
    )
    nodes = {quota_path(entity): value for entity, value in quotas.items()}
    found = rules.limit(user, client_id)
    shown = (
        None
        if found is None
        else (found.value, f"user={found.user or ''} client-id={found.client_id or ''}")
    )
    assert shown == oracle(nodes, user, client_id)


def test_each_kind_is_looked_up_on_its_own() -> None:
    quotas = {
        QuotaEntity(user="ada", client_id="app"): {"consumer_byte_rate": 7.0},
        QuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 5.0},
    }
    assert QuotaRules(quotas, PRODUCER_BYTE_RATE).limit("ada", "app") == Limit(5, None, "app")
    assert QuotaRules(quotas, "consumer_byte_rate").limit("ada", "app") == Limit(7, "ada", "app")
    assert QuotaRules(quotas, "consumer_byte_rate").limit("ada", "other") is None


def test_an_address_has_its_own_limit_or_the_default() -> None:
    key = "connection_creation_rate"
    rules = QuotaRules({QuotaEntity(ip="192.0.2.1"): {key: 3.0}}, key)
    assert rules.limit_of_address("192.0.2.1") == 3
    assert rules.limit_of_address("192.0.2.2") is None
    assert rules.limit("192.0.2.1", "192.0.2.1") is None
    rules = QuotaRules({QuotaEntity(ip=DEFAULT): {key: 9.0}}, key)
    assert rules.limit_of_address("192.0.2.2") == 9
