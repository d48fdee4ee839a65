"""Makes the SASL mechanisms of a listener from its settings.

A mechanism has a JAAS line: `listener.name.NAME.MECHANISM.sasl.jaas.config`, or else a section of
the JAAS file that KAFKA_OPTS names, `NAME.KafkaServer` or `KafkaServer`. Kafka does not read
`sasl.jaas.config` without the prefixes, and neither does this broker.
"""

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, cast

from odradek.broker.authentication.token_keys import keys_of
from odradek.config.listener_settings import ListenerSettings
from odradek.config.setting import InvalidSetting
from odradek.config.values import InvalidValue
from odradek.security.jaas import (
    SERVER_SECTION,
    LoginModule,
    jaas_file_path,
    parse_jaas_config,
    parse_jaas_file,
)
from odradek.security.sasl.server.exchange import Mechanism
from odradek.security.sasl.server.oauthbearer import OAuthBearer, TokenChecker
from odradek.security.sasl.server.plain import JaasUsers, PasswordChecker, Plain
from odradek.security.sasl.server.scram import FindAccount, Scram
from odradek.security.scram import ScramMechanism
from odradek.world import World
from odradek.world.environment import environment
from odradek.world.installing import install_line

logger = logging.getLogger("odradek.authentication")

FindAccounts = Callable[[ScramMechanism], FindAccount]
"""Returns the look-up of users and tokens for one mechanism."""

_JAAS: Final = "sasl.jaas.config"
_CALLBACK: Final = "sasl.server.callback.handler.class"
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_KAFKAS: Final = "org.apache.kafka.common.security."
_PLAIN_CHECKER: Final = f"{_KAFKAS}plain.internals.PlainServerCallbackHandler"
_SIGNED: Final = (
    f"{_KAFKAS}oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_KAFKAS}oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED: Final = (
    f"{_KAFKAS}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


def make_mechanisms(
    settings: ListenerSettings, find_accounts: FindAccounts, world: World
) -> dict[str, Mechanism]:
    """Returns the mechanisms by name. Raises `InvalidSetting`."""
    enabled = settings.sasl_enabled_mechanisms
    name = settings.prefix + "sasl.enabled.mechanisms"
    if not enabled:
        raise InvalidSetting(name, "(empty)", "name at least one mechanism")
    mechanisms: dict[str, Mechanism] = {}
    for mechanism in enabled:
        if mechanism not in _MODULES:
            supported = ", ".join(_MODULES)
            raise InvalidSetting(name, mechanism, f"it is not supported; choose from {supported}")
        own = settings.of_mechanism(mechanism)
        module = _login_module(own, mechanism, world)
        if mechanism == "PLAIN":
            mechanisms[mechanism] = Plain(_password_checker(own, module, world))
        elif mechanism == "OAUTHBEARER":
            mechanisms[mechanism] = OAuthBearer(_token_checker(own, module, world))
        elif mechanism == "GSSAPI":
            from odradek.broker.authentication.kerberos_keys import (  # noqa: PLC0415 - an extra
                gssapi_mechanism,
            )

            mechanisms[mechanism] = gssapi_mechanism(own, module, world)
        else:
            kind = ScramMechanism.SHA_256 if mechanism.endswith("256") else ScramMechanism.SHA_512
            mechanisms[mechanism] = Scram(kind, find_accounts(kind), world.randomness.bytes)
    return mechanisms


# JAAS


def _login_module(settings: ListenerSettings, mechanism: str, world: World) -> LoginModule:
    name = f"{settings.prefix}{mechanism.lower()}.{_JAAS}"
    if settings.sasl_jaas_config is not None and _JAAS in settings.own:
        try:
            module = parse_jaas_config(settings.sasl_jaas_config)
        except InvalidValue as error:
            raise InvalidSetting(name, "(hidden)", str(error)) from None
        if module.short_name != _MODULES[mechanism]:
            reason = f"{mechanism} needs {_MODULES[mechanism]}, not {module.short_name}"
            raise InvalidSetting(name, "(hidden)", reason)
        return module
    if settings.sasl_jaas_config is not None:
        logger.warning("%s without a prefix is ignored, as in Kafka: write %s", _JAAS, name)
    path = jaas_file_path(environment())
    if path is None:
        raise InvalidSetting(
            name,
            None,
            f"must be set: {mechanism} is enabled; or name a JAAS file in"
            " KAFKA_OPTS=-Djava.security.auth.login.config=FILE",
        )
    return _module_of_file(settings, mechanism, path, world)


def _module_of_file(
    settings: ListenerSettings, mechanism: str, path: str, world: World
) -> LoginModule:
    listener = settings.prefix.split(".")[2]
    wanted = _MODULES[mechanism]
    try:
        sections = parse_jaas_file(world.disk.read(path).decode())
    except (OSError, ValueError) as error:
        reason = f"the JAAS file cannot be read: {error}"
        raise InvalidSetting("java.security.auth.login.config", path, reason) from None
    for section in (f"{listener}.{SERVER_SECTION}", SERVER_SECTION):
        for module in sections.get(section, ()):
            if module.short_name == wanted:
                return module
    raise InvalidSetting(
        "java.security.auth.login.config",
        path,
        f"it has no {wanted} in {listener}.{SERVER_SECTION} or {SERVER_SECTION}, and"
        f" {settings.prefix}{mechanism.lower()}.{_JAAS} is not set",
    )


# Who checks passwords and tokens


def _password_checker(
    settings: ListenerSettings, module: LoginModule, world: World
) -> PasswordChecker:
    name = settings.sasl_server_callback_handler_class
    if not name or name == _PLAIN_CHECKER:
        users = JaasUsers(module.options)
        if not settings.odradek_ldap_urls:
            return users
        from odradek.broker.authentication.directory_users import (  # noqa: PLC0415 - an extra
            directory_users,
        )

        return directory_users(settings, users, world)
    if settings.odradek_ldap_urls:
        reason = f"{name} checks the passwords: set one of both"
        raise InvalidSetting(f"{settings.prefix}odradek.ldap.urls", "", reason)
    checker_class = _own_class(settings, name)
    checker = checker_class(module.options)
    if not callable(getattr(checker, "check", None)):
        raise InvalidSetting(_prefixed(settings), name, "it has no method check(name, password)")
    return cast("PasswordChecker", checker)


def _token_checker(settings: ListenerSettings, module: LoginModule, world: World) -> TokenChecker:
    name = settings.sasl_server_callback_handler_class
    if name == _UNSECURED:
        from odradek.security.sasl.server.unsecured_tokens import (  # noqa: PLC0415 - for tests
            UnsecuredTokens,
        )

        logger.warning(
            "%s accepts tokens without a signature: everybody can be everybody",
            settings.prefix[:-1],
        )
        try:
            return UnsecuredTokens(module.options, world.clock.now_ms)
        except InvalidValue as error:
            raise InvalidSetting(settings.prefix + _JAAS, "(hidden)", str(error)) from None
    if name and name not in _SIGNED:
        checker = _own_class(settings, name)(module.options)
        if not callable(getattr(checker, "check", None)):
            raise InvalidSetting(_prefixed(settings), name, "it has no method check(token)")
        return cast("TokenChecker", checker)
    return _signed_tokens(settings, world)


def _signed_tokens(settings: ListenerSettings, world: World) -> TokenChecker:
    try:
        import jwt  # noqa: F401, PLC0415 - an extra, only for this mechanism

        from odradek.security.sasl.server.token_claims import ClaimRules  # noqa: PLC0415
        from odradek.security.sasl.server.tokens import SignedTokens  # noqa: PLC0415
    except ImportError:
        raise InvalidSetting(
            settings.prefix + "sasl.enabled.mechanisms",
            "OAUTHBEARER",
            f"tokens are checked by PyJWT; install it: {install_line('security')}",
        ) from None
    audience = settings.sasl_oauthbearer_expected_audience
    rules = ClaimRules(
        audiences=audience or None,
        issuer=settings.sasl_oauthbearer_expected_issuer or None,
        scope_claim=settings.sasl_oauthbearer_scope_claim_name,
        name_claim=settings.sasl_oauthbearer_sub_claim_name,
        skew_ms=1000 * settings.sasl_oauthbearer_clock_skew_seconds,
    )
    return SignedTokens(keys_of(settings, world), rules, world.clock.now_ms)


def _own_class(settings: ListenerSettings, name: str) -> Callable[[Mapping[str, str]], object]:
    """Returns a class of the operator. Only the properties file of the broker names one: this
    setting cannot be changed over the network."""
    module, colon, class_name = name.partition(":")
    if not colon:
        reason = "write module:Class for one in Python; of Java's there are only Kafka's own"
        raise InvalidSetting(_prefixed(settings), name, reason)
    try:
        found: Callable[[Mapping[str, str]], object] = getattr(import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(
            _prefixed(settings), name, f"it cannot be imported: {error}"
        ) from error
    return found


def _prefixed(settings: ListenerSettings) -> str:
    return settings.prefix + _CALLBACK
