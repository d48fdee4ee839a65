"""Short runs of the attacks before the log-in. Long: `python -m tests.fuzz.before_login`."""

import asyncio
from collections.abc import Iterator

import pytest

from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.attacks import PROBE, Attack, AttackSource, frame
from tests.fuzz.before_login import Attacker, Outcome, attack_broker, differences
from tests.fuzz.half_open import compare
from tests.fuzz.log_ins import by_password, measure
from tests.fuzz.report import MEBIBYTE
from tests.fuzz.secured_broker import PASSWORD, USER, SecuredBroker, secured_broker
from tests.fuzz.slow_readers import MAX_GROWTH_BYTES, allow, fill, growth_by
from tests.fuzz.test_fuzz import EVERYTHING

# One broker for all of them.
pytestmark = pytest.mark.xdist_group("before-login")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("attacked")) as running:
        yield running


def test_nobody_gets_in_and_nothing_changes(broker: SecuredBroker) -> None:
    outcome = asyncio.run(attack_broker(broker, inputs=2500, seed=1, connections=16))
    assert outcome.faults() == []
    assert outcome.outcomes.total() == 3000
    assert {kind.partition(" to ")[2] for kind in outcome.kinds} == {"ssl", "sasl", "sasl_ssl"}


@pytest.mark.parametrize("listener", ["sasl", "sasl_ssl"])
def test_somebody_who_gets_in_would_be_noticed(broker: SecuredBroker, listener: str) -> None:
    class WithThePassword(AttackSource):
        def attack(self, number: int) -> Attack:
            token = f"\0{USER}\0{PASSWORD}".encode()
            data = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            data += frame(SaslAuthenticateRequest(auth_bytes=token), 1)
            return Attack("token", listener, listener == "sasl_ssl", data + PROBE)

    outcome = Outcome()
    attacker = Attacker(broker, outcome)
    asyncio.run(attacker.run(WithThePassword(0, EVERYTHING), range(3), 1))
    assert outcome.outcomes["got in"] == 3
    assert len(outcome.violations) == 3


def test_log_ins_are_right_or_wrong_as_they_should_be(broker: SecuredBroker) -> None:
    """Time is judged by `python -m tests.fuzz.log_ins`."""
    seen = asyncio.run(measure(broker, by_password("PLAIN", USER, PASSWORD), rate=40, seconds=1))
    assert (seen["log_ins"], seen["mistakes"]) == (40, 0)


def test_half_open_handshakes_cost_little_and_clients_are_served(broker: SecuredBroker) -> None:
    """More than are allowed at once. Time is judged by `python -m tests.fuzz.half_open`."""
    alone, crowded, crowd, growth = asyncio.run(compare(broker, connections=2000, seconds=1))
    assert crowd.opened >= 2000
    assert growth < 40 * MEBIBYTE
    for good in (alone, crowded):
        assert good.questions
        assert good.log_ins


def test_slow_readers_over_tls_cost_little(broker: SecuredBroker) -> None:
    allow(broker)
    fill(broker)
    growth, begun = asyncio.run(growth_by(broker, 200))
    assert begun == 200
    assert growth <= MAX_GROWTH_BYTES


def test_a_changed_node_or_file_would_be_noticed() -> None:
    before = {"/config/users/a": (b"1", 0), "file": 3}
    assert differences(before, before) == []
    assert len(differences(before, {"/config/users/a": (b"1", 1), "new": 1})) == 3


def test_a_seed_repeats_its_log_ins() -> None:
    one, other = AttackSource(1, EVERYTHING), AttackSource(1, EVERYTHING)
    for number in range(50):
        first, second = one.attack(number), other.attack(number)
        assert first.listener == second.listener
        if first.kind != "TLS":
            assert first == second


def test_tokens_of_every_mechanism_are_hostile() -> None:
    source = AttackSource(0, EVERYTHING)
    kinds = {source.attack(number).kind for number in range(200)}
    assert kinds == {"TLS", "frame", "frame after handshake", "token", "handshake"}
