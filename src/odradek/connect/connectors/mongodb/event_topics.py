"""Chooses the topic for the changes of a collection, by the settings `topic.prefix`, `topic.suffix`
and `topic.namespace.map`.

The map is a JSON object from names to topics. The first name that matches decides, in this order:

DATABASE.COLLECTION
DATABASE               the topic is followed by the name of the collection
/PATTERN               matches the whole name; the topic may have {db}, {coll}, {sep}, {sep_coll},
                       {coll_sep} and {sep_coll_sep}
*                      all others

A name with an empty topic is ignored.
"""

import json
import re
from typing import Final

from odradek.connect.transforms.java_patterns import java_pattern

_VARIABLES: Final = ("db", "coll", "sep", "sep_coll", "coll_sep", "sep_coll_sep")
_PLACE: Final = re.compile(r"\{([^{}]*)\}")


class EventTopics:
    def __init__(self, prefix: str, suffix: str, separator: str, namespace_map: str) -> None:
        """Raises ValueError or `InvalidConfig`."""
        self._begin = f"{prefix}{separator}" if prefix else ""
        self._end = f"{separator}{suffix}" if suffix else ""
        self._separator = separator
        self._simple: dict[str, str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        self._for_others = ""
        found = json.loads(namespace_map) if namespace_map.strip() else {}
        if not isinstance(found, dict):
            raise ValueError("it must be a JSON object")
        for name, topic in found.items():
            if not isinstance(topic, str):
                raise ValueError(f"the topic of {name!r} must be a string")
            self._add(name, topic)

    def _add(self, name: str, topic: str) -> None:
        if name.startswith("/"):
            _check_template(topic)
            pattern = java_pattern(name[1:])
            if topic:
                self._patterns.append((pattern, topic))
        elif "/" in name:
            raise ValueError(f"{name!r} has a slash, but only a pattern has one, at its beginning")
        elif name == "*":
            self._for_others = topic
        elif topic:
            self._simple[name] = topic

    def of(self, database: str, collection: str) -> str:
        """Returns the topic; `collection` is empty for changes of a whole database."""
        return f"{self._begin}{self._between(database, collection)}{self._end}"

    def _between(self, database: str, collection: str) -> str:
        separator = self._separator
        suffix = f"{separator}{collection}" if collection else ""
        name = f"{database}.{collection}" if collection else database
        if name in self._simple:
            return self._simple[name]
        if database in self._simple:
            return f"{self._simple[database]}{suffix}"
        for pattern, template in self._patterns:
            if pattern.fullmatch(name):
                return self._filled(template, database, collection)
        return self._for_others or f"{database}{suffix}"

    def _filled(self, template: str, database: str, collection: str) -> str:
        separator = self._separator
        values = {
            "db": database,
            "coll": collection,
            "sep": separator,
            "sep_coll": f"{separator}{collection}" if collection else "",
            "coll_sep": f"{collection}{separator}" if collection else "",
            "sep_coll_sep": f"{separator}{collection}{separator}" if collection else "",
        }
        return _PLACE.sub(lambda match: values[match[1]], template)


def _check_template(topic: str) -> None:
    rest = _PLACE.sub("", topic)
    if "{" in rest or "}" in rest:
        raise ValueError(f"{topic!r} has a brace without its counterpart")
    for name in _PLACE.findall(topic):
        if name not in _VARIABLES:
            raise ValueError(f"{name!r} is not one of {', '.join(_VARIABLES)}")
