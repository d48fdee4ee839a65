import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.config import (
    BROKER_DECLARED,
    BrokerSettings,
    InvalidSetting,
    Setting,
    TopicSettings,
    check_topic_overrides,
)
from odradek.config.spelling import Speller, did_you_mean

SPELLER = Speller(BROKER_DECLARED)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("num.partitions", "num.partitions"),
        ("num.partitons", "num.partitions"),
        ("num.partittions", "num.partitions"),
        ("num.partitionz", "num.partitions"),
        ("num.partiitons", "num.partitions"),
        ("num_partitions", "num.partitions"),
        ("NUM.PARTITION", "num.partitions"),
        ("log.retention.hour", "log.retention.hours"),
        ("something.else", None),
        ("", None),
    ],
)
def test_a_slip_of_the_finger_is_recognised(typed: str, meant: str | None) -> None:
    assert SPELLER.nearest(typed) == meant


@given(st.sampled_from(sorted(BROKER_DECLARED)), st.data())
def test_a_missing_letter_is_found(name: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(name) - 1))
    found = SPELLER.nearest(name[:position] + name[position + 1 :])
    # Two settings may be one letter apart; either is a good guess.
    assert found is not None
    assert abs(len(found) - len(name)) <= 2


def test_a_long_name_costs_nothing() -> None:
    assert SPELLER.nearest("x" * 10_000_000) is None


settings = st.sampled_from([*BROKER_DECLARED.values(), *TopicSettings.declared.values()])


@given(settings, st.text())
@example(BROKER_DECLARED["num.partitions"], "9" * 5000)
@example(BROKER_DECLARED["listeners"], "PLAINTEXT://h:" + "9" * 5000)
@example(BROKER_DECLARED["listeners"], "x" * 5000)
@example(BROKER_DECLARED["listener.security.protocol.map"], "x" * 5000)
@example(BROKER_DECLARED["max.connections.per.ip.overrides"], "h:" + "9" * 5000)
@example(TopicSettings.declared["min.cleanable.dirty.ratio"], "infinity")
def test_any_text_is_taken_or_refused_in_a_line(setting: Setting[object], text: str) -> None:
    try:
        value = setting.parse(text)
    except InvalidSetting as error:
        line = str(error)
    else:
        shown = setting.text(value)
        assert shown is None or setting.parse(shown) == value
        return
    assert line.isprintable()
    assert len(line) < 700


def test_what_came_over_the_wire_is_cut_and_escaped() -> None:
    defaults = BrokerSettings().topic_defaults
    with pytest.raises(InvalidSetting) as caught:
        check_topic_overrides({"retention.ms": "x\n" * 1000}, defaults)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "known", "hint"),
    [
        ("--topix", ["--topic", "--group"], "; did you mean --topic?"),
        ("consumer_group", ["topics", "consumer-groups"], "; did you mean consumer-groups?"),
        ("excldue-internl", ["exclude-internal"], "; did you mean exclude-internal?"),
        ("startngOffsets", ["startingOffsets"], "; did you mean startingOffsets?"),
        ("quite-different", ["topics"], ""),
    ],
)
def test_commands_and_options_also_find_names_further_away(
    typed: str, known: list[str], hint: str
) -> None:
    assert did_you_mean(typed, known) == hint
