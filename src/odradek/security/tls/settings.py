"""Kafka's `ssl.*` properties, checked, as one value that brokers, clients and services use alike.

The names are Kafka's, so that the properties of a Java client or broker work as they are. Values of
passwords and keys never appear in an error or in a `repr`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from odradek.config.setting import InvalidSetting
from odradek.config.values import parse_list

KEYSTORE: Final = "ssl.keystore."
TRUSTSTORE: Final = "ssl.truststore."
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - the name of a property
ENABLED_PROTOCOLS: Final = "ssl.enabled.protocols"
PROTOCOL: Final = "ssl.protocol"
CIPHER_SUITES: Final = "ssl.cipher.suites"
CLIENT_AUTH: Final = "ssl.client.auth"
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"

STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_OLD_PROTOCOLS: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")

TLS_PROPERTIES: Final = (
    *(KEYSTORE + part for part in ("type", "location", "password", "key", "certificate.chain")),
    KEY_PASSWORD,
    *(TRUSTSTORE + part for part in ("type", "location", "password", "certificates")),
    ENABLED_PROTOCOLS,
    PROTOCOL,
    CIPHER_SUITES,
    CLIENT_AUTH,
    ENDPOINT_IDENTIFICATION,
)
"""The properties that `TlsSettings.from_properties` reads."""


class ClientAuth(Enum):
    """Whether a server asks its clients for a certificate. With REQUESTED a client may have none,
    but one that it shows must be valid."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Store:
    """A keystore or a truststore: a file, or PEM text in the properties.

    `prefix` is the beginning of the names of its properties, as the operator wrote them, for
    instance `listener.name.secure.ssl.keystore.`. `store_type` is empty if it was not given or is
    JKS, Kafka's default: then the file says itself what it is. `key` and `chain` are PEM text; a
    truststore has no key.
    """

    prefix: str
    store_type: str = ""
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def chain_property(self) -> str:
        """The name of the property that has the certificates as text."""
        is_keystore = self.prefix.endswith(KEYSTORE)
        return self.prefix + ("certificate.chain" if is_keystore else "certificates")

    @property
    def key_password_property(self) -> str:
        return self.prefix.removesuffix(KEYSTORE) + KEY_PASSWORD


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What one side of TLS connections uses. A missing truststore means the certificate authorities
    of the operating system, as it means those of the Java installation in Kafka."""

    keystore: Store | None = None
    truststore: Store | None = None
    protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    client_auth: ClientAuth = ClientAuth.NONE
    checks_hostname: bool = True
    # What stands before the names of the properties, for messages: `listener.name.secure.`.
    prefix: str = ""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], prefix: str = "") -> "TlsSettings":
        """Reads the properties of `TLS_PROPERTIES` from `properties`, and ignores others.

        `prefix` is only for messages: the caller has already chosen the values. Raises
        `InvalidSetting`, which names the property and what to write instead.
        """
        given = {
            name: text for name in TLS_PROPERTIES if (text := properties.get(name)) is not None
        }
        _check_protocol(given.get(PROTOCOL, ""), prefix)
        return cls(
            keystore=_keystore(given, prefix),
            truststore=_truststore(given, prefix),
            protocols=_protocols(given.get(ENABLED_PROTOCOLS, ""), prefix),
            cipher_suites=tuple(parse_list(given.get(CIPHER_SUITES, ""))),
            client_auth=_client_auth(given.get(CLIENT_AUTH, ""), prefix),
            checks_hostname=_checks_hostname(given, prefix),
            prefix=prefix,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the keys and certificates come from."""
        stores = (self.keystore, self.truststore)
        return tuple(store.location for store in stores if store is not None and store.location)


def _keystore(given: Mapping[str, str], prefix: str) -> Store | None:
    store = Store(
        prefix + KEYSTORE,
        _store_type(given, KEYSTORE, prefix),
        given.get(KEYSTORE + "location") or None,
        given.get(KEYSTORE + "password"),
        given.get(KEYSTORE + "key") or None,
        given.get(KEYSTORE + "certificate.chain") or None,
        given.get(KEY_PASSWORD),
    )
    if (store.key is None) != (store.chain is None):
        missing = "key" if store.key is None else "certificate.chain"
        raise InvalidSetting(
            store.prefix + missing, None, f"must be set: {store.prefix}* has only the other half"
        )
    return _checked(store, "key")


def _truststore(given: Mapping[str, str], prefix: str) -> Store | None:
    store = Store(
        prefix + TRUSTSTORE,
        _store_type(given, TRUSTSTORE, prefix),
        given.get(TRUSTSTORE + "location") or None,
        given.get(TRUSTSTORE + "password"),
        None,
        given.get(TRUSTSTORE + "certificates") or None,
    )
    return _checked(store, "certificates")


def _checked(store: Store, inline: str) -> Store | None:
    """Returns the store, or None if nothing of it is set."""
    is_inline = store.chain is not None
    if store.location is None and not is_inline:
        if store.password:
            raise InvalidSetting(
                store.prefix + "location", None, f"must be set, for {store.prefix}password is"
            )
        return None
    if store.location is not None and is_inline:
        raise InvalidSetting(
            store.prefix + "location",
            store.location,
            f"{store.prefix}{inline} is set too; choose one of both",
        )
    if is_inline and store.store_type not in ("", "PEM"):
        raise InvalidSetting(
            store.prefix + "type", store.store_type, f"must be PEM, for {store.prefix}{inline} is"
        )
    if store.store_type == "PEM" and store.password:
        advice = f"; the password of an encrypted key is {store.key_password_property}"
        raise InvalidSetting(
            store.prefix + "password",
            "(hidden)",
            "a PEM file has no password of its own; remove it"
            + (advice if inline == "key" else ""),
        )
    return store


def _store_type(given: Mapping[str, str], part: str, prefix: str) -> str:
    text = given.get(part + "type", "").strip().upper()
    if text and text not in STORE_TYPES:
        raise InvalidSetting(prefix + part + "type", text, f"must be {_either(STORE_TYPES)}")
    return "" if text == "JKS" else text


def _check_protocol(text: str, prefix: str) -> None:
    """Kafka's `ssl.protocol` chooses a Java object that can speak every version; which versions are
    spoken is decided by `ssl.enabled.protocols`. So a good value has no effect."""
    if text.strip() not in ("", "TLS", *PROTOCOLS):
        raise InvalidSetting(prefix + PROTOCOL, text, f"must be {_either(('TLS', *PROTOCOLS))}")


def _protocols(text: str, prefix: str) -> tuple[str, ...]:
    names = parse_list(text)
    if not names:
        return PROTOCOLS
    for name in names:
        if name in _OLD_PROTOCOLS:
            raise InvalidSetting(
                prefix + ENABLED_PROTOCOLS,
                text,
                f"{name} is not secure and not supported; take {_either(PROTOCOLS)}",
            )
        if name not in PROTOCOLS:
            raise InvalidSetting(
                prefix + ENABLED_PROTOCOLS, text, f"must be a list of {_either(PROTOCOLS)}"
            )
    return tuple(name for name in PROTOCOLS if name in names)


def _client_auth(text: str, prefix: str) -> ClientAuth:
    try:
        return ClientAuth(text.strip().lower() or "none")
    except ValueError:
        choices = _either([choice.value for choice in ClientAuth])
        raise InvalidSetting(prefix + CLIENT_AUTH, text, f"must be {choices}") from None


def _checks_hostname(given: Mapping[str, str], prefix: str) -> bool:
    text = given.get(ENDPOINT_IDENTIFICATION, "https").strip().lower()
    if text not in ("", "https"):
        raise InvalidSetting(
            prefix + ENDPOINT_IDENTIFICATION, text, "must be https, or empty for no check"
        )
    return bool(text)


def _either(choices: tuple[str, ...] | list[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
