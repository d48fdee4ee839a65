"""The settings of the HTTP source, in which variables stand for how far it was read."""

import re
from typing import Final

from odradek.config.kinds import integer, password, string
from odradek.config.setting import Importance
from odradek.connect.connectors.http_authorization import HttpServerSettings
from odradek.connect.connectors.http_client import parse_url
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import REQUIRED, Problems, invalid

VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


class HttpSourceSettings(HttpServerSettings):
    topic = string("kafka.topic", REQUIRED, "The topic for the records.", may_be_empty=False)
    url = string("http.request.url", REQUIRED, "The URL to ask.", importance=Importance.HIGH)
    method = string(
        "http.request.method", "GET", "The method.", choices=("get", "post"), folds_case=True
    )
    headers = string("http.request.headers", "", "More headers, as in Name: value,Name: value.")
    params = string(
        "http.request.params",
        "",
        "The query, as in since=${offset.updated}&page=${page}; a part whose variable has no value"
        " is left out.",
    )
    body = string("http.request.body", None, "The body of a POST, with variables too.")
    interval_ms = integer(
        "http.timer.interval.millis", 60_000, "The pause between two polls.", at_least=1
    )
    timeout_ms = integer(
        "http.client.read.timeout.millis", 30_000, "How long an answer may take.", at_least=1
    )
    list_pointer = string(
        "http.response.list.pointer", "", "Where the records are, as a JSON pointer: /items."
    )
    offset_pointers = string(
        "http.response.record.offset.pointer",
        "",
        "What of a record says how far was read, as in id=/id,updated=/meta/updated.",
    )
    key_pointer = string("http.response.record.key.pointer", None, "What becomes the key.")
    timestamp_pointer = string(
        "http.response.record.timestamp.pointer", None, "The record's time: ISO 8601, or ms."
    )
    initial = string(
        "http.offset.initial", "", "The offset before the first record, as in id=0,updated=2024."
    )
    pagination = string(
        "http.pagination",
        "none",
        "How the next page is found: cursor (http.pagination.pointer), link (the header Link) or"
        " number (${page} counts from http.pagination.first).",
        choices=("none", "cursor", "link", "number"),
        folds_case=True,
    )
    page_pointer = string(
        "http.pagination.pointer", "/next", "Where the next page's cursor or URL is in an answer."
    )
    first_page = integer("http.pagination.first", 1, "The number of the first page.", at_least=0)
    auth_type = string(
        "http.auth.type",
        "none",
        "none, basic (http.auth.user and .password), bearer (http.auth.token) or oauth2.",
        choices=("none", "basic", "bearer", "oauth2"),
        folds_case=True,
    )
    auth_user = string("http.auth.user", "", "The user, for basic.")
    auth_password = password("http.auth.password", "The password, for basic.")
    auth_token = password("http.auth.token", "The token, for bearer.")

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        try:
            parse_url(VARIABLE.sub("", self.url))
        except InvalidConfig as error:
            problems["http.request.url"] = [invalid("http.request.url", self.url, str(error))]
        for name, text in (
            ("http.response.record.offset.pointer", self.offset_pointers),
            ("http.offset.initial", self.initial),
        ):
            if text and not all("=" in part for part in text.split(",")):
                problems[name] = [invalid(name, text, "it is not like name=value,name=value")]
        if self.auth_type == "oauth2" and not self.oauth2_access_token_url:
            name = "oauth2.access.token.url"
            problems[name] = [invalid(name, "", "http.auth.type=oauth2 needs it")]
        return problems | self._wrong_variables()

    def _wrong_variables(self) -> Problems:
        known = {f"offset.{name}" for name in pairs(self.offset_pointers)} | {"page"}
        problems: Problems = {}
        for name, text in (
            ("http.request.url", self.url),
            ("http.request.params", self.params),
            ("http.request.headers", self.headers),
            ("http.request.body", self.body or ""),
        ):
            for variable in VARIABLE.findall(text):
                if variable not in known:
                    reason = f"${{{variable}}} is not one of {', '.join(sorted(known))}"
                    problems[name] = [invalid(name, text, reason)]
        return problems


def pairs(text: str) -> dict[str, str]:
    """Reads `name=value,name=value`."""
    found = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in found}
