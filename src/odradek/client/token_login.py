"""Logs in by OAUTHBEARER: where the client's tokens come from, and how long one is used.

Tokens come from a function of the program (`sasl.login.callback.handler.class`), from a token
endpoint or a file (`sasl.oauthbearer.token.endpoint.url`), or are made by the client itself, which
is for tests (`unsecuredLogin...` in the JAAS line). Sources may wait, so they run in a thread.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.client.errors import AuthenticationFailed, ConnectionFailed, SettingsError
from odradek.client.login import Login
from odradek.client.retry import Backoff, Failures
from odradek.security.jaas import LoginModule
from odradek.security.sasl.client import tokens
from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed
from odradek.security.sasl.client.oauthbearer import OAuthBearerExchange
from odradek.security.sasl.client.tokens import (
    Endpoint,
    Token,
    TokenUnavailable,
    token_from_answer,
)
from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.settings.security import SecuritySettings

_KAFKA_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
# Kafka's own classes for tokens: which of them is used follows from the other settings.
_KNOWN_HANDLERS: Final = (
    f"{_KAFKA_OAUTH}OAuthBearerLoginCallbackHandler",
    f"{_KAFKA_OAUTH}secured.OAuthBearerLoginCallbackHandler",
    f"{_KAFKA_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)


class TokenLogin(Login):
    """OAUTHBEARER. A token is kept until a part of its lifetime is over, so that a thousand
    connections ask the token endpoint once; it is got when a log-in needs it, not before."""

    mechanism = "OAUTHBEARER"

    def __init__(self, settings: "SecuritySettings", module: LoginModule | None) -> None:
        self._source = _token_source(settings, dict(module.options) if module else {})
        self._window = settings.sasl_login_refresh_window_factor
        self._first_backoff_ms = settings.sasl_login_retry_backoff_ms
        self._max_backoff_ms = settings.sasl_login_retry_backoff_max_ms
        self._token: Token | None = None
        self._refresh_at_s = 0.0
        self._lock = asyncio.Lock()
        self._clock = SystemClock()

    async def exchange(self, host: str) -> ClientExchange:
        token = await self.token()
        try:
            return OAuthBearerExchange(token.text, token.extensions)
        except SaslFailed as error:
            raise AuthenticationFailed(str(error)) from None

    async def token(self) -> Token:
        """Returns the token to show now; raises `AuthenticationFailed` or `ConnectionFailed`."""
        async with self._lock:
            return await self._current()

    async def _current(self) -> Token:
        now_s = self._clock.now_ms() / 1000
        if self._token is None or now_s >= self._refresh_at_s:
            self._token = token = await self._fetch()
            lifetime_s = 0.0 if token.expires_s is None else token.expires_s - now_s
            self._refresh_at_s = now_s + max(lifetime_s, 0.0) * self._window
        return self._token

    async def _fetch(self) -> Token:
        """Asks the source, again after errors that may pass; the waits double up to a limit."""
        failures = Failures(Backoff(self._first_backoff_ms, self._max_backoff_ms, Randomness()))
        while True:
            try:
                return await self._source()
            except TokenUnavailable as error:
                if not error.is_temporary:
                    raise AuthenticationFailed(f"no OAUTHBEARER token: {error}") from None
                if self._first_backoff_ms << failures.count >= self._max_backoff_ms:
                    raise ConnectionFailed(f"no OAUTHBEARER token: {error}") from None
            await failures.wait()


_AsyncSource = Callable[[], Awaitable[Token]]


def _token_source(settings: "SecuritySettings", options: Mapping[str, str]) -> _AsyncSource:
    handler = settings.sasl_login_callback_handler_class
    if handler is not None and not isinstance(handler, str):
        return _called(handler)
    if handler is not None and handler not in _KNOWN_HANDLERS:
        raise SettingsError(
            f"sasl.login.callback.handler.class={handler!r} is a Java class, which is not loaded:"
            " name a function of Python as module:function that returns the token"
        )
    extensions = tokens.jaas_extensions(options)
    url = settings.sasl_oauthbearer_token_endpoint_url
    if url:
        path = tokens.file_in_url(url)
        if path is not None:
            disk = OsDisk()
            return _in_thread(lambda: tokens.token_in_file(disk.read, path, extensions))
        endpoint = _endpoint(settings, options, url, extensions)
        return _in_thread(endpoint)
    if any(name.startswith("unsecuredLogin") for name in options):
        clock = SystemClock()
        try:
            tokens.unsecured_token(options, 0.0)
        except TokenUnavailable as error:
            raise SettingsError(f"sasl.jaas.config: {error}") from None
        return _in_thread(lambda: tokens.unsecured_token(options, clock.now_ms() / 1000))
    raise SettingsError(
        "sasl.mechanism=OAUTHBEARER needs to know where tokens come from: set"
        " sasl.oauthbearer.token.endpoint.url (or file:///path of a token), or"
        " sasl.login.callback.handler.class=module:function"
    )


def _endpoint(
    settings: "SecuritySettings",
    options: Mapping[str, str],
    url: str,
    extensions: Mapping[str, str],
) -> Callable[[], Token]:

    client_id = settings.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = settings.sasl_oauthbearer_client_credentials_client_secret
    secret = secret or options.get("clientSecret")
    if not client_id or not secret:
        raise SettingsError(
            "sasl.oauthbearer.token.endpoint.url needs a client id and a secret: set"
            " sasl.oauthbearer.client.credentials.client.id and .client.secret, or clientId and"
            " clientSecret in sasl.jaas.config"
        )
    endpoint = Endpoint(
        url,
        client_id,
        secret,
        scope=settings.sasl_oauthbearer_scope or options.get("scope"),
        url_encodes_credentials=settings.sasl_oauthbearer_header_urlencode,
        connect_timeout_s=settings.sasl_login_connect_timeout_ms / 1000,
        read_timeout_s=settings.sasl_login_read_timeout_ms / 1000,
        extensions=extensions,
    )
    trust = {name: value for name, value in options.items() if name.startswith("ssl.")}

    def fetch() -> Token:
        context = None
        if trust:
            from odradek.client.security import tls_context  # noqa: PLC0415 - only if asked for
            from odradek.client.settings.shared import AdminSettings  # noqa: PLC0415

            context = tls_context(
                AdminSettings.from_properties({"security.protocol": "SSL"} | trust)
            )
        return endpoint.fetch(context)

    return fetch


def _in_thread(source: Callable[[], Token]) -> _AsyncSource:
    return lambda: asyncio.to_thread(source)


def _called(function: object) -> _AsyncSource:
    """Calls a function of the program: a coroutine function here, any other in a thread."""

    provider = function() if isinstance(function, type) else function
    call = cast("Callable[[], Any]", getattr(provider, "token", provider))

    async def source() -> Token:
        try:
            is_async = inspect.iscoroutinefunction(call)
            answer = await (call() if is_async else asyncio.to_thread(call))
        except TokenUnavailable:
            raise
        except Exception as error:
            # The message of a function of the program may have anything in it, so only its kind.
            raise TokenUnavailable(
                f"the token function raised {type(error).__name__}", is_temporary=True
            ) from error
        return token_from_answer(answer)

    return source
