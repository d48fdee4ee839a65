"""What a group may be set to, and what is in force for it."""

import pytest

from odradek.config import BrokerSettings, InvalidSetting, Source
from odradek.config.consumer_group_settings import (
    ConsumerGroupSettings,
    check_group_overrides,
    describe_group,
)

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def broker(**properties: str) -> BrokerSettings:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return BrokerSettings.from_properties(named)


def test_a_group_without_overrides_has_what_the_broker_gives_to_all() -> None:
    ours = broker(group_consumer_heartbeat_interval_ms="6000")
    assert ConsumerGroupSettings.of(ours, {}) == (45_000, 6_000)


def test_an_override_wins_and_the_other_setting_stays() -> None:
    assert ConsumerGroupSettings.of(broker(), {SESSION: "50000"}) == (50_000, 5_000)
    assert ConsumerGroupSettings.of(broker(), {HEARTBEAT: "10000"}) == (45_000, 10_000)


def test_nonsense_in_the_store_is_not_in_force() -> None:
    assert ConsumerGroupSettings.of(broker(), {SESSION: "soon"}) == (45_000, 5_000)


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({SESSION: "44999"}, "45000 to 60000"),
        ({SESSION: "60001"}, "45000 to 60000"),
        ({HEARTBEAT: "4999"}, "5000 to 15000"),
        ({HEARTBEAT: "soon"}, "whole number"),
        ({"consumer.session.timeout": "50000"}, "no group setting"),
    ],
)
def test_what_a_group_cannot_be_set_to(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        check_group_overrides(overrides, broker())


def test_the_limits_themselves_are_allowed() -> None:
    check_group_overrides({SESSION: "60000", HEARTBEAT: "15000"}, broker())
    check_group_overrides({SESSION: "45000", HEARTBEAT: "5000"}, broker())


def test_members_report_more_often_than_they_are_given_up() -> None:
    ours = broker(group_consumer_min_session_timeout_ms="5000")
    with pytest.raises(InvalidSetting, match="more than the heartbeat interval"):
        check_group_overrides({SESSION: "6000", HEARTBEAT: "6000"}, ours)


def test_a_description_says_what_is_its_own() -> None:
    described = {one.name: one for one in describe_group(broker(), {SESSION: "50000"})}
    assert (described[SESSION].value, described[SESSION].source) == ("50000", Source.GROUP)
    assert (described[HEARTBEAT].value, described[HEARTBEAT].source) == ("5000", Source.DEFAULT)
    (named,) = describe_group(broker(), {}, [HEARTBEAT, "x"])
    assert named.name == HEARTBEAT
