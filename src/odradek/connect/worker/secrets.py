"""Secrets in configurations: references that are resolved late, and values that are not shown.

A configuration may say `${file:/run/secrets/db.properties:password}` where the worker's file
declares the provider `file` with `config.providers`. The reference is what is stored, shown and
given to other workers; only the task's code gets the value. Passwords in plain text are stored as
they are, as in Kafka Connect, and shown as `[hidden]`; so is a password within a URL, and a list of
HTTP headers with a log-in. Who sends back what was shown leaves such a value as it is, so a
configuration can be read, changed and written.
"""

import re
from collections.abc import Mapping
from typing import Final

from odradek.config.redaction import is_sensitive_name, protect
from odradek.config.secrets import DeclaredProviders
from odradek.config.setting import InvalidSetting
from odradek.connect import plugins
from odradek.connect.errors import InvalidConfig

HIDDEN: Final = "[hidden]"
# `mongodb://ada:PASSWORD@host` and `jdbc:postgresql://host/db?user=ada&password=PASSWORD`.
_OF_USER: Final = re.compile(r"(://[^/@:\s]*:)([^/@\s]+)(?=@)")
_OF_QUERY: Final = re.compile(r"([?&;]([\w.-]+)=)([^?&;\s]+)")
_LOG_IN_HEADERS: Final = ("authorization", "cookie", "api-key", "apikey", "token", "secret")
Properties = Mapping[str, str]


class Secrets:
    def __init__(self, providers: DeclaredProviders) -> None:
        self.providers = providers

    def resolved(self, properties: Properties) -> dict[str, str]:
        """Returns the properties with the values that they refer to, which from then on are hidden
        in everything that this process writes. Raises `InvalidConfig`."""
        try:
            found = self.providers.resolve(properties)
        except InvalidSetting as error:
            raise InvalidConfig(str(error)) from None
        for name in _sensitive(properties):
            protect(found[name])
        for text in found.values():
            for password in _in_url(text):
                protect(password)
        return found

    def has_reference(self, text: str) -> bool:
        return self.providers.has_references(text)

    def with_references(self, raw: Properties, made: Properties) -> dict[str, str]:
        """Returns properties that a connector has made of resolved ones, with the references of the
        raw ones in place of the values that came from them."""
        resolved = self.resolved(raw)
        return {
            name: raw[name] if name in raw and resolved[name] == text else text
            for name, text in made.items()
        }

    def shown(self, properties: Properties) -> dict[str, str]:
        """Returns the properties as callers may see them."""
        sensitive = _sensitive(properties)
        return {
            name: text
            if self.has_reference(text)
            else HIDDEN
            if name in sensitive
            else _shown(text)
            for name, text in properties.items()
        }


def _sensitive(properties: Properties) -> set[str]:
    """Returns the names of properties that are passwords: by declaration, or by their names."""
    declared: set[str] = set()
    try:
        plugin = plugins.find_connector(properties.get("connector.class", ""))
        declared = {
            name for name, one in plugin.settings_class.declared.items() if one.is_sensitive
        }
    except InvalidConfig:
        pass  # The class is not installed here any more; names are all there is to go by.
    return {
        name
        for name, text in properties.items()
        if name in declared or is_sensitive_name(name) or _has_log_in_header(name, text)
    }


def _has_log_in_header(name: str, text: str) -> bool:
    """Returns whether a setting is a list of `header: value` with one that is a secret."""
    lowered = text.lower()
    return "headers" in name and ":" in text and any(word in lowered for word in _LOG_IN_HEADERS)


def _shown(text: str) -> str:
    """Returns a value without the passwords in a URL."""
    if "://" not in text:
        return text

    def hidden(found: re.Match[str]) -> str:
        return found[1] + (HIDDEN if is_sensitive_name(found[2]) else found[3])

    return _OF_QUERY.sub(hidden, _OF_USER.sub(rf"\g<1>{HIDDEN}", text))


def _in_url(text: str) -> list[str]:
    """Returns the passwords in a URL."""
    if "://" not in text:
        return []
    of_query = [found[3] for found in _OF_QUERY.finditer(text) if is_sensitive_name(found[2])]
    return [found[2] for found in _OF_USER.finditer(text)] + of_query


def kept(given: Properties, known: Properties) -> dict[str, str]:
    """Returns what a caller has sent, with the known value wherever it is what was shown of it."""
    return {
        name: known[name] if name in known and text in (HIDDEN, _shown(known[name])) else text
        for name, text in given.items()
    }
