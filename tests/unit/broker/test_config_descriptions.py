"""Topics with the same overrides share what is said about their settings."""

from odradek.broker.config_descriptions import ConfigDescriptionCache
from odradek.config import BrokerSettings


def settings_of(**properties: str) -> BrokerSettings:
    return BrokerSettings.from_properties({"node.id": "1", "log.dirs": "/data", **properties})


def test_what_was_described_is_shared_until_the_settings_change() -> None:
    same, settings = ConfigDescriptionCache(), settings_of()
    calls = []

    def describe() -> list[int]:
        calls.append(1)
        return [len(calls)]

    first = same.get_or_describe(settings, {"a": "1", "b": "2"}, "w", describe)
    assert same.get_or_describe(settings, {"b": "2", "a": "1"}, "w", describe) is first
    assert same.get_or_describe(settings, {"a": "1"}, "w", describe) == [2]
    assert same.get_or_describe(settings, {"a": "1", "b": "2"}, "v", describe) == [3]
    assert same.get_or_describe(settings_of(), {"a": "1", "b": "2"}, "w", describe) == [4]


def test_what_was_not_asked_for_lately_is_forgotten() -> None:
    same, settings = ConfigDescriptionCache(), settings_of()
    kept: list[int] = same.get_or_describe(settings, {}, "w", list)
    for number in range(100):
        same.get_or_describe(settings, {"a": str(number)}, "w", list)
        assert same.get_or_describe(settings, {}, "w", list) is kept
    first: list[int] = same.get_or_describe(settings, {"a": "0"}, "w", list)
    assert same.get_or_describe(settings, {"a": "0"}, "w", list) is first
