"""Records as HTTP requests: `io.aiven.kafka.connect.http.HttpSinkConnector`.

A request that the server refuses for what it contains (most of 4xx) makes its records failed
records. If the server does not answer or has a problem (429, 5xx), the request is sent again, and
in the end the engine tries later. So records may arrive twice, and none is left out.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from odradek.config.kinds import boolean, integer, names, password, string
from odradek.config.setting import Importance
from odradek.connect.connectors.connector import FailedRecord, SinkConnector, SinkTask
from odradek.connect.connectors.http_authorization import (
    NONE,
    OAUTH2,
    STATIC,
    Authorization,
    Fixed,
    HttpServerSettings,
    OAuth2,
)
from odradek.connect.connectors.http_client import Answer, HttpClient, parse_url, tls_context
from odradek.connect.converters.json_converter import BASE64, NUMERIC, JsonConverter
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.records import SinkRecord
from odradek.connect.settings import REQUIRED, Problems, invalid

_BUSY: Final = frozenset({408, 425, 429})
# Every record would be refused, so the task fails, and no record is set aside.
_NOT_ALLOWED: Final = frozenset({401, 403, 407})
_MAX_PAUSE_S: Final = 60.0
_UNSUPPORTED: Final = "connectors go to servers directly"


class HttpSinkSettings(HttpServerSettings):
    http_url = string("http.url", REQUIRED, "The URL to send to.", importance=Importance.HIGH)
    http_authorization_type = string(
        "http.authorization.type",
        REQUIRED,
        "none, static (http.headers.authorization) or oauth2.",
        choices=(NONE, STATIC, OAUTH2),
        folds_case=True,
        importance=Importance.HIGH,
    )
    http_headers_authorization = password(
        "http.headers.authorization", "The header Authorization, for `static`."
    )
    http_headers_content_type = string(
        "http.headers.content.type", None, "The header Content-Type of each request."
    )
    http_headers_additional = names(
        "http.headers.additional", (), "More headers, as in name:value,name:value."
    )
    http_timeout = integer("http.timeout", 30, "How long an answer may take, in s.", at_least=1)
    batching_enabled = boolean("batching.enabled", False, "Send several records in a request.")
    batch_max_size = integer(
        "batch.max.size", 500, "How many that are, at most.", at_least=1, at_most=1_000_000
    )
    batch_prefix = string("batch.prefix", "", "What stands before the records of a request.")
    batch_suffix = string("batch.suffix", "\n", "What stands after them.")
    batch_separator = string("batch.separator", "\n", "What stands between them.")
    batch_buffering_enabled = boolean(
        "batch.buffering.enabled", False, "Without effect: a batch is sent when it was read."
    )
    max_retries = integer("max.retries", 1, "How often a request is sent again.", at_least=0)
    retry_backoff_ms = integer(
        "retry.backoff.ms", 3000, "The first pause before that; it doubles.", at_least=0
    )
    kafka_retry_backoff_ms = integer(
        "kafka.retry.backoff.ms", None, "Without effect: the engine chooses its pauses."
    )
    decimal_format = string(
        "decimal.format",
        NUMERIC,
        "How decimals are written in JSON.",
        choices=(BASE64.lower(), NUMERIC.lower()),
        folds_case=True,
    )
    proxy_host = string("http.proxy.host", None, f"Refused: {_UNSUPPORTED}.")
    oauth2_token_renew_on_status_codes = names(
        "oauth2.token.renew.on.status.codes",
        ("401",),
        "The statuses of responses after which a new token is requested.",
    )

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, url in (
            ("http.url", self.http_url),
            ("oauth2.access.token.url", self.oauth2_access_token_url),
        ):
            try:
                if url is not None:
                    parse_url(url)
            except InvalidConfig as error:
                problems[name] = [invalid(name, url, str(error))]
        if self.proxy_host is not None:
            problems["http.proxy.host"] = [
                invalid("http.proxy.host", self.proxy_host, f"{_UNSUPPORTED}; leave it out")
            ]
        for header in self.http_headers_additional:
            if not header.partition(":")[2].strip():
                name = "http.headers.additional"
                problems[name] = [invalid(name, header, "it is not like name:value")]
        problems |= self._wrong_authorization()
        return problems

    def _wrong_authorization(self) -> Problems:
        needed: tuple[tuple[str, object], ...] = ()
        if self.http_authorization_type == STATIC:
            needed = (("http.headers.authorization", self.http_headers_authorization),)
        elif self.http_authorization_type == OAUTH2:
            needed = (
                ("oauth2.access.token.url", self.oauth2_access_token_url),
                ("oauth2.client.id", self.oauth2_client_id),
                ("oauth2.client.secret", self.oauth2_client_secret),
            )
        reason = f"http.authorization.type={self.http_authorization_type} needs it"
        return {name: [invalid(name, "", reason)] for name, value in needed if not value}


class _Refused(DataError):
    """A request that the server refuses for what it contains."""


class HttpSink(SinkConnector):
    settings_class: ClassVar = HttpSinkSettings

    def __init__(self, settings: HttpSinkSettings) -> None:
        self._settings = settings

    def task(self) -> "HttpSinkTask":
        return HttpSinkTask(self._settings)


class HttpSinkTask(SinkTask):
    def __init__(self, settings: HttpSinkSettings) -> None:
        self._settings = settings
        address = parse_url(settings.http_url)
        context = None
        if address.is_tls:
            context = tls_context(settings, "http.", trusts_all=settings.trusts_all)
        headers = {
            name.strip(): value.strip()
            for name, _, value in (
                header.partition(":") for header in settings.http_headers_additional
            )
        }
        if settings.http_headers_content_type:
            headers["Content-Type"] = settings.http_headers_content_type
        self._client = HttpClient(
            [address], timeout_s=float(settings.http_timeout), context=context, headers=headers
        )
        self._authorization = _authorization(settings)
        self._renews = {int(code) for code in settings.oauth2_token_renew_on_status_codes}
        self._json = JsonConverter(has_schemas=False, decimal_format=settings.decimal_format)
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()
        self._client.close()

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        failed: list[FailedRecord] = []
        ready: list[tuple[SinkRecord, str]] = []
        for record in records:
            try:
                ready.append((record, self._text(record)))
            except DataError as error:
                failed.append(FailedRecord(record, error))
        for batch in self._batches(ready):
            try:
                self._send("".join(self._body([text for _, text in batch])))
            except _Refused as error:
                failed += [FailedRecord(record, error) for record, _ in batch]
        return failed

    def _text(self, record: SinkRecord) -> str:
        value = record.value
        if value is None:
            raise DataError("the record has no value, and a request needs a body")
        if isinstance(value, str):
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode("utf-8", "replace")
        data = self._json.from_connect(record.topic, record.value_schema, value)
        assert data is not None
        return data.decode("utf-8", "surrogatepass")

    def _batches(
        self, ready: list[tuple[SinkRecord, str]]
    ) -> Iterator[list[tuple[SinkRecord, str]]]:
        size = self._settings.batch_max_size if self._settings.batching_enabled else 1
        for begin in range(0, len(ready), size):
            yield ready[begin : begin + size]

    def _body(self, texts: list[str]) -> list[str]:
        settings = self._settings
        if not settings.batching_enabled:
            return texts
        return [settings.batch_prefix, settings.batch_separator.join(texts), settings.batch_suffix]

    def _send(self, body: str) -> None:
        """Raises `_Refused` if the server refuses this request, `DataError` if it refuses all, and
        `Unavailable` if the request could not be made."""
        data = body.encode("utf-8", "replace")
        has_renewed = False
        reason, attempt = "", 0
        while attempt <= self._settings.max_retries:
            try:
                answer = self._ask(data)
            except Unavailable as error:
                reason, wait_s = str(error), 0.0
            else:
                if answer.status < 300:
                    return
                if answer.status in self._renews and not has_renewed:
                    has_renewed = True
                    if self._authorization.renew():
                        continue
                reason = f"HTTP {answer.status}: {answer.text}"
                if answer.status in _NOT_ALLOWED:
                    raise DataError(
                        f"{self._client.address.origin} does not let us in: {reason}; check"
                        " http.authorization.type and what belongs to it"
                    )
                if answer.status not in _BUSY and answer.status < 500:
                    raise _Refused(f"{self._client.address.origin} refuses a request: {reason}")
                wait_s = retry_after_s(answer)
            attempt += 1
            pause_s = max(wait_s, self._settings.retry_backoff_ms * 2.0 ** (attempt - 1) / 1000)
            is_last = attempt > self._settings.max_retries
            if is_last or self._closed.wait(min(pause_s, _MAX_PAUSE_S)):
                break
        raise Unavailable(f"a request was not taken after {attempt} tries: {reason}")

    def _ask(self, data: bytes) -> Answer:
        headers = self._authorization.headers()
        return self._client.send("POST", self._client.address.target, data, headers)


def retry_after_s(answer: Answer) -> float:
    """Returns how long a server asks to wait; 0 if it says nothing that we understand."""
    for name, text in answer.headers.items():
        if name.lower() == "retry-after" and text.isdigit():
            return float(text)
    return 0.0


def _authorization(settings: HttpSinkSettings) -> Authorization:
    if settings.http_authorization_type == OAUTH2:
        return OAuth2(settings, float(settings.http_timeout))
    if settings.http_authorization_type == STATIC:
        return Fixed(settings.http_headers_authorization)
    return Fixed(None)
