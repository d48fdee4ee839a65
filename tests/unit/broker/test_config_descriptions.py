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

    first = same.described(settings, {"a": "1", "b": "2"}, "w", describe)
    assert same.described(settings, {"b": "2", "a": "1"}, "w", describe) is first
    assert same.described(settings, {"a": "1"}, "w", describe) == [2]
    assert same.described(settings, {"a": "1", "b": "2"}, "v", describe) == [3]
    assert same.described(settings_of(), {"a": "1", "b": "2"}, "w", describe) == [4]


def test_what_was_not_asked_for_lately_is_forgotten() -> None:
    same, settings = ConfigDescriptionCache(), settings_of()
    kept: list[int] = same.described(settings, {}, "w", list)
    for number in range(100):
        same.described(settings, {"a": str(number)}, "w", list)
        assert same.described(settings, {}, "w", list) is kept
    first: list[int] = same.described(settings, {"a": "0"}, "w", list)
    assert same.described(settings, {"a": "0"}, "w", list) is first
