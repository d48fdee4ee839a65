"""What validation says of each setting, beside what Apache Kafka Connect 4.3.1 says."""

from typing import Any

import pytest

from odradek import __version__
from odradek.connect import plugins
from odradek.connect.api.definitions import definitions_of, validation_of
from odradek.connect.errors import InvalidConfig
from odradek.connect.validation import common_settings, converter_settings, own_settings, validate

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
CAST = "org.apache.kafka.connect.transforms.Cast$Value"
WORKER = {"key.converter": JSON, "value.converter": JSON}


def report(name: str, **given: str) -> Any:
    named = {key.replace("__", "."): value for key, value in given.items()}
    return validation_of(validate({"connector.class": name, "name": "v", **named}, WORKER))


def errors(name: str, **given: str) -> dict[str, list[str]]:
    found = report(name, **given).configs
    return {one.value.name: one.value.errors for one in found if one.value.errors}


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [
        (one.name, one.type, one.default_value, one.importance, one.group, one.order_in_group,
         one.width, one.display_name)
        for one in found
    ]  # fmt: skip


def test_settings_of_all_sources_look_as_those_of_apache() -> None:
    found = report(SOURCE, topic="a")
    assert found.groups == [
        "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation",
        "Exactly Once Support", "offsets.topic",
    ]  # fmt: skip
    shown = [row for row in rows(one.definition for one in found.configs) if row[4] != "Common"]
    assert rows(one.definition for one in found.configs if one.definition.group == "Common") == [
        ("name", "STRING", None, "HIGH", "Common", 1, "MEDIUM", "Connector name"),
        ("connector.class", "STRING", None, "HIGH", "Common", 2, "LONG", "Connector class"),
        ("connector.plugin.version", "STRING", __version__, "MEDIUM", "Common", 3, "MEDIUM",
         "Connector version"),
        ("tasks.max", "INT", "1", "HIGH", "Common", 4, "SHORT", "Tasks max"),
        ("tasks.max.enforce", "BOOLEAN", "true", "LOW", "Common", 5, "SHORT", "Enforce tasks max"),
        ("key.converter", "CLASS", JSON, "LOW", "Common", 6, "SHORT", "Key converter class"),
        ("key.converter.plugin.version", "STRING", __version__, "LOW", "Common", 7, "SHORT",
         "Key converter version"),
        ("value.converter", "CLASS", JSON, "LOW", "Common", 8, "SHORT", "Value converter class"),
        ("value.converter.plugin.version", "STRING", __version__, "LOW", "Common", 9, "SHORT",
         "Value converter version"),
        ("header.converter", "CLASS", plugins.SIMPLE_HEADERS, "LOW", "Common", 10, "SHORT",
         "Header converter class"),
        ("header.converter.plugin.version", "STRING", __version__, "LOW", "Common", 11, "SHORT",
         "Header converter version"),
        ("config.action.reload", "STRING", "restart", "LOW", "Common", 14, "MEDIUM",
         "Reload Action"),
        ("odradek.lane", "STRING", "shared", "LOW", "Common", 15, "SHORT", "Lane"),
    ]  # fmt: skip
    assert ("transforms", "LIST", "", "LOW", "Transforms", 12, "LONG", "Transforms") in shown
    assert shown[-3:] == [
        ("file", "STRING", None, "HIGH", None, -1, "NONE", "file"),
        ("topic", "STRING", None, "HIGH", None, -1, "NONE", "topic"),
        ("batch.size", "INT", "2000", "LOW", None, -1, "NONE", "batch.size"),
    ]


def test_transforms_and_predicates_have_a_group_each() -> None:
    found = report(SOURCE, topic="a", transforms="x", transforms__x__type=CAST)
    (kind, version, *others) = [
        one for one in found.configs if one.definition.group == "Transforms: x"
    ]
    assert rows([kind.definition]) == [
        ("transforms.x.type", "CLASS", None, "HIGH", "Transforms: x", 0, "LONG",
         "Transformation type for x")
    ]  # fmt: skip
    assert CAST in kind.value.recommended_values
    assert version.value.recommended_values == [__version__]
    assert [(one.definition.display_name, one.definition.order_in_group) for one in others] == [
        ("spec", 2), ("negate", 3), ("predicate", 4), ("replace.null.with.default", 5),
    ]  # fmt: skip


def test_a_converter_that_is_named_shows_its_settings_and_what_is_wrong_with_them() -> None:
    given = {"value__converter": JSON, "value__converter__schemas__enable": "maybe"}
    assert set(errors(SOURCE, topic="a", **given)) == {"value.converter.schemas.enable"}
    found = report(SOURCE, topic="a", value__converter=JSON)
    assert found.groups[-2:] == ["Schemas", "Serialization"]
    kinds = {one.value.name: one.value.value for one in found.configs}
    assert kinds["value.converter.converter.type"] == "value"
    assert kinds["value.converter.schemas.cache.size"] == "1000"
    alone = rows(definitions_of(converter_settings(JSON)))
    assert ("schemas.enable", "BOOLEAN", "true", "HIGH", "Schemas", 0, "MEDIUM",
            "Enable Schemas") in alone  # fmt: skip


def test_a_plugin_shows_its_own_settings() -> None:
    plugin = plugins.find_connector(SINK)
    assert [one.name for one in own_settings(plugin, {})] == ["file"]
    names = [one.name for one in common_settings(plugin, {}, {})]
    assert names[-5:] == [
        "topics", "topics.regex", "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.replication.factor",
        "errors.deadletterqueue.context.headers.enable",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"tasks__max__enforce": "x"}, {"tasks.max.enforce"}),
        ({"tasks__max": "1001"}, {"tasks.max"}),
        ({"transaction__boundary": "connector"}, {"transaction.boundary"}),
        ({"offsets__storage__topic": ""}, {"offsets.storage.topic"}),
    ],
)
def test_what_is_not_obeyed_is_refused(given: dict[str, str], wrong: set[str]) -> None:
    assert set(errors(SOURCE, topic="a", **given)) == wrong


def test_a_configuration_without_a_class_is_shown_as_apache_shows_it() -> None:
    with pytest.raises(Exception, match=r"Connector config \{name=a, x=1\} contains no connector"):
        validate({"name": "a", "x": "1"})


def test_a_sink_without_anything_lacks_its_topics_too() -> None:
    found = validation_of(validate({"connector.class": SINK}, WORKER))
    assert [one.value.name for one in found.configs if one.value.errors] == [
        "name", "topics", "topics.regex",
    ]  # fmt: skip
    assert found.error_count == 3
    assert set(errors(SINK, tasks__max="x")) == {"tasks.max", "topics", "topics.regex"}


@pytest.mark.parametrize("name", ["JsonConverter", "SimpleHeaderConverter", JSON])
def test_a_converter_of_headers_may_have_its_short_name(name: str) -> None:
    assert not errors(SOURCE, topic="a", header__converter=name)
    assert set(errors(SOURCE, topic="a", header__converter="NoSuch")) == {"header.converter"}


def test_settings_of_transforms_are_as_important_as_apache_s() -> None:
    begin = "org.apache.kafka.connect.transforms."
    found = {
        f"{transform}.{setting.name}": setting.importance.name
        for transform in ("DropHeaders", "HeaderFrom$Value", "MaskField$Value", "RegexRouter")
        for setting in plugins.TRANSFORMS[f"{begin}{transform}"].settings_class.declared.values()
    }
    assert {name: level for name, level in found.items() if level != "MEDIUM"} == {
        "DropHeaders.headers": "HIGH",
        "HeaderFrom$Value.fields": "HIGH",
        "HeaderFrom$Value.headers": "HIGH",
        "HeaderFrom$Value.operation": "HIGH",
        "MaskField$Value.fields": "HIGH",
        "MaskField$Value.replacement": "LOW",
        "RegexRouter.regex": "HIGH",
        "RegexRouter.replacement": "HIGH",
    }


def test_what_has_a_name_twice_is_shown_once() -> None:
    found = errors(SOURCE, topic="a", predicates="p,p")
    assert set(found) == {"predicates", "predicates.p.type"}
    twice = {"transforms": "x,x", "transforms__x__type": CAST, "transforms__x__spec": "int8"}
    assert set(errors(SOURCE, topic="a", **twice)) == {"transforms"}


def test_a_misspelt_class_is_answered_with_its_name_as_it_is_written() -> None:
    wrong = "org.apache.kafka.connect.storage.StringConvertr"
    with pytest.raises(InvalidConfig) as raised:
        plugins.make_converter(wrong, {})
    assert str(raised.value) == (
        f"Class {wrong} could not be found. Did you mean {wrong.removesuffix('r')}er?"
    )
