"""Who a client logs in as, and by which SASL mechanism: from its settings to an exchange.

`check_login` refuses wrong settings when a client is made; `login_of` returns the `Login` that the
connections of the client share. A log-in is written as Kafka's users write it, in this order:
`sasl.jaas.config`, the section `KafkaClient` of the JAAS file that KAFKA_OPTS names, or
`sasl.username` and `sasl.password`.
"""

import asyncio
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.client.errors import AuthenticationFailed, ConnectionFailed, SettingsError
from odradek.client.retry import Backoff, Failures
from odradek.security.jaas import (
    CLIENT_SECTION,
    InvalidJaas,
    LoginModule,
    jaas_file_path,
    parse_jaas_config,
    parse_jaas_file,
)
from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed
from odradek.security.scram import ScramMechanism
from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.settings.security import SecuritySettings
    from odradek.security.sasl.client.tokens import Token

_SCRAM: Final = {one.kafka_name: one for one in ScramMechanism}
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    **dict.fromkeys(_SCRAM, "ScramLoginModule"),
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_KAFKA_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
# Kafka's own classes for tokens: which of them is used follows from the other settings.
_KNOWN_HANDLERS: Final = (
    f"{_KAFKA_OAUTH}OAuthBearerLoginCallbackHandler",
    f"{_KAFKA_OAUTH}secured.OAuthBearerLoginCallbackHandler",
    f"{_KAFKA_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)


class Login(ABC):
    """What the connections of one client share: the credentials, and what was computed of them."""

    mechanism: str
    is_costly: bool = False
    """Whether a reply of the exchange computes so long that it belongs in a worker thread."""

    @abstractmethod
    async def exchange(self, host: str) -> ClientExchange:
        """Returns the exchange of one log-in at a host; raises `AuthenticationFailed`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mechanism})"


def check_login(settings: "SecuritySettings") -> None:
    """Raises `SettingsError` for a mechanism or credentials that cannot work."""
    login_of(settings, Randomness())


def login_of(settings: "SecuritySettings", randomness: Randomness) -> Login:
    """Returns the log-in that the settings describe."""
    mechanism = settings.sasl_mechanism.upper()
    if mechanism not in _MODULES:
        raise SettingsError(
            f"sasl.mechanism={settings.sasl_mechanism!r}: must be one of {', '.join(_MODULES)}"
        )
    module = _module(settings, mechanism)
    try:
        if mechanism == "OAUTHBEARER":
            return _TokenLogin(settings, module)
        if mechanism == "GSSAPI":
            return _KerberosLogin(settings, module)
        username, password = _username_and_password(settings, mechanism, module)
        if mechanism == "PLAIN":
            return _PlainLogin(username, password)
        has_token = module is not None and module.options.get("tokenauth", "").lower() == "true"
        return _ScramLogin(_SCRAM[mechanism], username, password, has_token, randomness)
    except SaslFailed as error:
        raise SettingsError(str(error)) from None


# Where the log-in is written


def _module(settings: "SecuritySettings", mechanism: str) -> LoginModule | None:
    """Returns the JAAS line of the settings or of the JAAS file; None if there is neither."""
    named = "sasl.jaas.config"
    try:
        if settings.sasl_jaas_config is not None:
            if settings.sasl_username is not None or settings.sasl_password is not None:
                raise SettingsError(
                    "sasl.jaas.config and sasl.username both say who logs in: leave one out"
                )
            module = parse_jaas_config(settings.sasl_jaas_config)
        else:
            path = None if settings.sasl_username is not None else jaas_file_path(os.environ)
            if path is None:
                return None
            named = f"{path}, which KAFKA_OPTS names,"
            modules = parse_jaas_file(OsDisk().read(path).decode()).get(CLIENT_SECTION, ())
            if len(modules) != 1:
                raise InvalidJaas(f"must have a section {CLIENT_SECTION} with one login module")
            module = modules[0]
    except InvalidJaas as error:
        raise SettingsError(f"{named} {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{named} cannot be read: {error}") from None
    if module.short_name != _MODULES[mechanism]:
        raise SettingsError(
            f"{named} has {module.short_name}, and sasl.mechanism={mechanism} needs"
            f" {_MODULES[mechanism]}: change one of them"
        )
    return module


def _username_and_password(
    settings: "SecuritySettings", mechanism: str, module: LoginModule | None
) -> tuple[str, str]:
    options: Mapping[str, str | None] = (
        {"username": settings.sasl_username, "password": settings.sasl_password}
        if module is None
        else module.options
    )
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        missing = "username" if not username else "password"
        raise SettingsError(
            f"sasl.mechanism={mechanism} needs a {missing}: set sasl.jaas.config=org.apache.kafka"
            f'.common.security.{mechanism[:5].lower()}.{_MODULES[mechanism]} required username="..."'
            ' password="..."; or sasl.username and sasl.password'
        )
    return username, password


# One class for each way to log in


class _PlainLogin(Login):
    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        from odradek.security.sasl.client.plain import PlainExchange  # noqa: PLC0415 - if chosen

        self._new = lambda: PlainExchange(username, password)
        self._new()

    async def exchange(self, host: str) -> ClientExchange:
        return self._new()


class _ScramLogin(Login):
    is_costly = True

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        has_token: bool,
        randomness: Randomness,
    ) -> None:
        from odradek.security.sasl.client.scram import (  # noqa: PLC0415 - if chosen
            NONCE_BYTES,
            ScramExchange,
            ScramUser,
        )

        self.mechanism = mechanism.kafka_name
        user = ScramUser(mechanism, username, password, has_token=has_token)
        self._new = lambda: ScramExchange(user, randomness.bytes(NONCE_BYTES))

    async def exchange(self, host: str) -> ClientExchange:
        return self._new()


class _TokenLogin(Login):
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
        self._lock: asyncio.Lock | None = None
        self._clock = SystemClock()

    async def exchange(self, host: str) -> ClientExchange:
        from odradek.security.sasl.client.oauthbearer import (  # noqa: PLC0415 - if chosen
            OAuthBearerExchange,
        )

        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            token = await self._current()
        try:
            return OAuthBearerExchange(token.text, token.extensions)
        except SaslFailed as error:
            raise AuthenticationFailed(str(error)) from None

    async def _current(self) -> "Token":
        now_s = self._clock.now_ms() / 1000
        if self._token is None or now_s >= self._refresh_at_s:
            self._token = token = await self._fetch()
            lifetime_s = 0.0 if token.expires_s is None else token.expires_s - now_s
            self._refresh_at_s = now_s + max(lifetime_s, 0.0) * self._window
        return self._token

    async def _fetch(self) -> "Token":
        """Asks the source, again after errors that may pass; the waits double up to a limit."""
        from odradek.security.sasl.client.tokens import TokenUnavailable  # noqa: PLC0415

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


_AsyncSource = Callable[[], Awaitable["Token"]]


def _token_source(settings: "SecuritySettings", options: Mapping[str, str]) -> _AsyncSource:
    from odradek.security.sasl.client import tokens  # noqa: PLC0415 - if chosen

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
        tokens.unsecured_token(options, 0.0)
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
) -> Callable[[], "Token"]:
    from odradek.security.sasl.client.tokens import Endpoint  # noqa: PLC0415 - if chosen

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

    def fetch() -> "Token":
        context = None
        if trust:
            from odradek.client.security import tls_context  # noqa: PLC0415 - only if asked for
            from odradek.client.settings.shared import AdminSettings  # noqa: PLC0415

            context = tls_context(
                AdminSettings.from_properties({"security.protocol": "SSL"} | trust)
            )
        return endpoint.fetch(context)

    return fetch


def _in_thread(source: Callable[[], "Token"]) -> _AsyncSource:
    return lambda: asyncio.to_thread(source)


def _called(function: object) -> _AsyncSource:
    """Calls a function of the program: a coroutine function here, any other in a thread."""
    from odradek.security.sasl.client.tokens import (  # noqa: PLC0415 - if chosen
        TokenUnavailable,
        token_from_answer,
    )

    provider = function() if isinstance(function, type) else function
    call = cast("Callable[[], Any]", getattr(provider, "token", provider))

    async def source() -> "Token":
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


class _KerberosLogin(Login):
    mechanism = "GSSAPI"
    is_costly = True

    def __init__(self, settings: "SecuritySettings", module: LoginModule | None) -> None:
        options = {} if module is None else module.options
        service = settings.sasl_kerberos_service_name or options.get("serviceName")
        if not service:
            raise SettingsError(
                "sasl.mechanism=GSSAPI needs sasl.kerberos.service.name, usually kafka; for a log-in"
                " by password set sasl.mechanism=PLAIN or SCRAM-SHA-512"
            )
        self._service = service
        self._options = dict(options)

    async def exchange(self, host: str) -> ClientExchange:
        from odradek.security.sasl.client.gssapi import new_exchange  # noqa: PLC0415 - an extra

        try:
            return await asyncio.to_thread(new_exchange, self._service, host, self._options)
        except SaslFailed as error:
            raise AuthenticationFailed(str(error)) from None
