"""Which settings of a consumer the flags of the console consumer are."""

import argparse

from odradek.cli.records import console_consumer


def properties(*words: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    console_consumer.add_arguments(parser)
    return console_consumer.consumer_properties(parser.parse_args(words))


def test_from_the_beginning_holds_for_a_topic_that_is_created_again() -> None:
    found = properties("--topic", "t", "--from-beginning")
    assert found["auto.offset.reset"] == "earliest"
    assert "auto.offset.reset" not in properties("--topic", "t")
    found = properties("--topic", "t", "--from-beginning", "--group", "g")
    assert found["auto.offset.reset"] == "earliest"
