"""Who a client logs in as, and by which SASL mechanism: from its settings to an exchange.

`check_login` refuses wrong settings when a client is made; `login_of` returns the `Login` that the
connections of the client share. A log-in is written as Kafka's users write it, in this order:
`sasl.jaas.config`, the section `KafkaClient` of the JAAS file that KAFKA_OPTS names, or
`sasl.username` and `sasl.password`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.client.errors import SettingsError
from odradek.security.jaas import (
    CLIENT_SECTION,
    InvalidJaas,
    LoginModule,
    jaas_file_path,
    parse_jaas_config,
    parse_jaas_file,
)
from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed
from odradek.security.sasl.client.plain import PlainExchange
from odradek.security.sasl.client.scram import NONCE_BYTES, ScramExchange, ScramUser
from odradek.security.scram import ScramMechanism
from odradek.world.disk import OsDisk
from odradek.world.environment import environment
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.settings.security import SecuritySettings

_SCRAM: Final = {one.kafka_name: one for one in ScramMechanism}
MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    **dict.fromkeys(_SCRAM, "ScramLoginModule"),
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}


class Login(ABC):
    """What the connections of one client share: the credentials, and what was computed of them."""

    mechanism: str
    is_costly: bool = False
    """Whether a reply of the exchange computes so long that it belongs in a worker thread."""

    @abstractmethod
    async def exchange(self, host: str) -> ClientExchange:
        """Returns the exchange of one log-in at a host; raises `AuthenticationFailed`."""

    def refused(self) -> None:  # noqa: B027 - most mechanisms keep nothing
        """Called when a broker has refused a log-in; what was kept may be the reason."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mechanism})"


def check_login(settings: "SecuritySettings") -> None:
    """Raises `SettingsError` for a mechanism or credentials that cannot work."""
    login_of(settings, Randomness())


def login_of(settings: "SecuritySettings", randomness: Randomness) -> Login:
    """Returns the log-in that the settings describe."""
    mechanism = settings.sasl_mechanism.upper()
    if mechanism not in MODULES:
        raise SettingsError(
            f"sasl.mechanism={settings.sasl_mechanism!r}: must be one of {', '.join(MODULES)}"
        )
    module = _module(settings, mechanism)
    try:
        if mechanism == "OAUTHBEARER":
            from odradek.client.token_login import TokenLogin  # noqa: PLC0415 - if chosen

            return TokenLogin(settings, module)
        if mechanism == "GSSAPI":
            from odradek.client.kerberos_login import KerberosLogin  # noqa: PLC0415 - if chosen

            return KerberosLogin(settings, module)
        username, password = _credentials(settings, mechanism, module)
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
            path = None if settings.sasl_username is not None else jaas_file_path(environment())
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
    if module.short_name != MODULES[mechanism]:
        raise SettingsError(
            f"{named} has {module.short_name}, and sasl.mechanism={mechanism} needs"
            f" {MODULES[mechanism]}: change one of them"
        )
    return module


def jaas_options(settings: "SecuritySettings") -> Mapping[str, str]:
    """Returns the options of the JAAS line, for a client that is not ours."""
    module = _module(settings, settings.sasl_mechanism.upper())
    return {} if module is None else module.options


def username_and_password(settings: "SecuritySettings") -> tuple[str, str]:
    """Returns the credentials of PLAIN and SCRAM, for a client that is not ours."""
    mechanism = settings.sasl_mechanism.upper()
    return _credentials(settings, mechanism, _module(settings, mechanism))


def _credentials(
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
            f"sasl.mechanism={mechanism} needs a {missing}: set sasl.username and sasl.password, or"
            f" sasl.jaas.config=org.apache.kafka.common.security.{mechanism[:5].lower()}"
            f'.{MODULES[mechanism]} required username="..." password="...";'
        )
    return username, password


# One class for each way to log in


class _PlainLogin(Login):
    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        # What cannot be sent is refused now.
        PlainExchange(username, password)
        self._credentials = (username, password)

    async def exchange(self, host: str) -> ClientExchange:
        return PlainExchange(*self._credentials)


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
        self.mechanism = mechanism.kafka_name
        self._user = ScramUser(mechanism, username, password, has_token=has_token)
        self._randomness = randomness

    async def exchange(self, host: str) -> ClientExchange:
        return ScramExchange(self._user, self._randomness.bytes(NONCE_BYTES))
