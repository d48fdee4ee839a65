"""Checks the metadata and rules that a schema brings. The registry keeps them; clients carry the
rules out. Records that others have written are checked too, so that nothing else in the state has
another shape."""

from typing import Any, Final

from odradek.registry.errors import Refused, invalid_rule_set

_MODES: Final = {
    "migrationRules": frozenset({"UPGRADE", "DOWNGRADE", "UPDOWN"}),
    "domainRules": frozenset({"WRITE", "READ", "WRITEREAD"}),
    "encodingRules": frozenset({"WRITE", "READ", "WRITEREAD"}),
}
RULE_KINDS: Final = tuple(_MODES)
_MAX_NAME: Final = 64


def check_metadata(metadata: Any) -> None:
    """Raises `Refused` for metadata of another shape: `properties` are texts by name, `tags` lists
    of texts by path, `sensitive` is a list of texts."""
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise Refused(422, "metadata is not an object")
    properties, tags = metadata.get("properties") or {}, metadata.get("tags") or {}
    sensitive = metadata.get("sensitive") or []
    if not isinstance(properties, dict) or not all(
        isinstance(value, str) for value in properties.values()
    ):
        raise Refused(422, "metadata.properties must be an object with texts as values")
    if not isinstance(tags, dict) or not all(map(_is_texts, tags.values())):
        raise Refused(422, "metadata.tags must be an object with lists of texts as values")
    if not _is_texts(sensitive):
        raise Refused(422, "metadata.sensitive must be a list of texts")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def has_known_shape(rule_set: Any) -> bool:
    """Returns whether rules have the shape that they must have to be kept."""
    return isinstance(rule_set, dict) and all(
        rules is None or (isinstance(rules, list) and all(_is_rule(rule) for rule in rules))
        for kind, rules in rule_set.items()
        if kind in _MODES
    )


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, dict)
        and _is_texts(rule.get("tags") or [])
        and isinstance(rule.get("params") or {}, dict)
    )


def check_rule_set(rule_set: Any) -> None:
    """Raises `Refused` for rules that Confluent's clients could not carry out."""
    if rule_set is None:
        return
    if not has_known_shape(rule_set):
        raise invalid_rule_set("rules are lists of objects; tags are texts, params an object")
    unknown = sorted(set(rule_set) - {*_MODES, "enableAt"})
    if unknown:
        raise invalid_rule_set(f"there are no {unknown[0][:100]}")
    names: set[str] = set()
    for kind, modes in _MODES.items():
        for rule in rule_set.get(kind) or ():
            _check_rule(rule, kind, modes, names)


def _check_rule(rule: Any, kind: str, modes: frozenset[str], names: set[str]) -> None:
    name = rule.get("name")
    if not isinstance(name, str) or not name:
        raise invalid_rule_set("Missing rule name")
    if len(name) > _MAX_NAME:
        raise invalid_rule_set("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(character.isalnum() or character in "_-" for character in name):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")
    if name in names:
        raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
    names.add(name)
    if not isinstance(rule.get("type"), str):
        raise invalid_rule_set("Missing rule type")
    mode = rule.get("mode")
    if mode is not None and mode not in modes:
        raise invalid_rule_set(f"{kind} can only be {', '.join(sorted(modes))}, not {mode}")
    for action in ("onSuccess", "onFailure"):
        several = "," in str(rule.get(action) or "")
        if several and mode is not None and mode not in {"WRITEREAD", "UPDOWN"}:
            raise invalid_rule_set("Multiple actions only valid with WRITEREAD and UPDOWN")
