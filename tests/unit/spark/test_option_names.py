"""An option that does not exist is answered with the one to write."""

import pytest

from odradek.spark.option_names import BadOption, check_names, check_path


def refusal(name: str, *, is_reading: bool) -> str:
    with pytest.raises(BadOption) as refused:
        check_names({"kafka.bootstrap.servers": "b", name: "v"}, is_reading=is_reading)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # As Spark passes them: in lower case.
        ("startngoffsets", "there is no option startngOffsets; did you mean startingOffsets?"),
        ("startingoffset", "there is no option startingOffset; did you mean startingOffsets?"),
        (
            "maxoffsetspertriger",
            "no option maxOffsetsPerTriger; did you mean maxOffsetsPerTrigger?",
        ),
        ("starting_offsets", "did you mean startingOffsets?"),
        # As a caller of `into_topic` or a pipeline's file writes them.
        ("StartingOffset", "there is no option StartingOffset; did you mean startingOffsets?"),
        # The settings of clients need their prefix.
        ("bootstrap.servers", "no option bootstrap.servers; write kafka.bootstrap.servers"),
        ("bootstrapservers", "write kafka.bootstrap.servers"),
        ("bootstrap.server", "did you mean kafka.bootstrap.servers?"),
        ("brokers", "write kafka.bootstrap.servers"),
        ("isolation_level", "write kafka.isolation.level"),
        ("group.id", "write kafka.group.id"),
        ("auto.offset.reset", "no option auto.offset.reset; use startingOffsets"),
        ("kafka.isolation.levl", "did you mean kafka.isolation.level?"),
        # The options of the other direction.
        ("topic", "topic is an option for writing; for reading, write subscribe"),
        ("topics", "there is no option topics; write subscribe"),
        ("path", "there is no option path; write subscribe"),
        ("checkpointlocation", "checkpointLocation is an option for writing; for reading, leave"),
        ("xyz", "no option xyz; known are kafka.bootstrap.servers, subscribe, subscribePattern,"),
    ],
)
def test_an_option_that_a_source_does_not_have(name: str, said: str) -> None:
    assert said in refusal(name, is_reading=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deliverygarantee", "no option deliveryGarantee; did you mean deliveryGuarantee?"),
        ("bootstrap_servers", "write kafka.bootstrap.servers"),
        ("acks", "write kafka.acks"),
        ("kafka.ack", "did you mean kafka.acks?"),
        ("transactional.id", "use transactionalIdPrefix"),
        ("topics", "write topic"),
        ("topc", "did you mean topic?"),
        ("subscribe", "subscribe is an option for reading; for writing, write topic"),
        ("startingoffsets", "startingOffsets is an option for reading; for writing, leave it out"),
        ("xyz", "known are kafka.bootstrap.servers, topic, deliveryGuarantee,"),
    ],
)
def test_an_option_that_a_sink_does_not_have(name: str, said: str) -> None:
    assert said in refusal(name, is_reading=False)


def test_options_are_known_in_any_case_and_so_are_settings_of_java_clients() -> None:
    reading = {"STARTINGOFFSETS": "latest", "kafka.group.id": "g", "groupIdPrefix": "p"}
    check_names(reading | {"kafka.sasl.login.class": "x"}, is_reading=True)
    writing = {"Topic": "t", "checkpointLocation": "c", "kafka.key.serializer": "x"}
    check_names(writing, is_reading=False)


def test_a_topic_is_not_a_path() -> None:
    check_path({"path": "x", "topic": "clicks"})
    with pytest.raises(BadOption, match=r"write option\('topic', 'clicks'\) and save\(\)"):
        check_path({"path": "/data/clicks"})
