"""The settings of one listener: `listener.name.NAME.` in front of a setting of listeners.

    ssl.keystore.location=/all.p12
    listener.name.internal.ssl.keystore.location=/internal.p12
    listener.name.internal.plain.sasl.jaas.config=...

`ListenerSecuritySettings` declares which settings listeners have. A setting of SASL may also be set
for one mechanism of a listener. Names of listeners and mechanisms are written in lower case, as in
Kafka.
"""

from collections.abc import Mapping
from typing import Final

from odradek.config.security_settings import (
    ListenerSecuritySettings,
    SaslListenerSettings,
)
from odradek.config.setting import InvalidSetting, Setting

PREFIX: Final = "listener.name."


def split_prefixed(name: str) -> tuple[str, str, Setting[object]] | None:
    """Returns the listener, the mechanism or an empty text, and the setting of a name such as
    `listener.name.NAME.SETTING` or `listener.name.NAME.MECHANISM.SETTING`; None for others."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name[len(PREFIX) :].partition(".")
    setting = ListenerSecuritySettings.declared.get(rest)
    if setting is not None:
        return listener, "", setting
    mechanism, _, rest = rest.partition(".")
    setting = SaslListenerSettings.declared.get(rest)
    return None if setting is None else (listener, mechanism, setting)


class ListenerSettings(ListenerSecuritySettings):
    """The values of one listener, or of one mechanism of it. Attributes never change."""

    # For messages: what stands before the names of settings of this listener.
    prefix: str
    # The names that were set with the prefix of the listener, without the prefix.
    own: frozenset[str]
    _given: Mapping[str, str]

    def __init__(self, given: Mapping[str, str], listener: str, mechanism: str = "") -> None:
        """`given` has the texts of all settings of the broker. Raises `InvalidSetting`."""
        self.__dict__["prefix"] = f"{PREFIX}{listener.lower()}."
        self.__dict__["_given"] = given
        prefixes = ["", self.prefix]
        if mechanism:
            prefixes.append(f"{self.prefix}{mechanism.lower()}.")
        own = []
        values = dict(self.defaults)
        for prefix in prefixes:
            for setting in self.declared.values():
                text = given.get(prefix + setting.name)
                if text is not None:
                    values[setting.attribute] = parse_prefixed(setting, prefix + setting.name, text)
                    if prefix:
                        own.append(setting.name)
        self.__dict__.update(values)
        self.__dict__["own"] = frozenset(own)

    def __eq__(self, other: object) -> bool:
        """Whether everything that was set for this listener and its mechanisms is the same."""
        return isinstance(other, ListenerSettings) and self._texts() == other._texts()

    __hash__ = None  # type: ignore[assignment]

    def _texts(self) -> dict[str, str]:
        return {
            name: text
            for name, text in self._given.items()
            if name in self.declared or name.startswith(self.prefix)
        }

    def of_mechanism(self, mechanism: str) -> "ListenerSettings":
        """Returns the same with what was set for one mechanism alone."""
        listener = self.prefix[len(PREFIX) : -1]
        return ListenerSettings(self._given, listener, mechanism)

    def tls_properties(self) -> dict[str, str]:
        """Returns what `TlsSettings.from_properties` reads, by Kafka's names."""
        values = {
            "ssl.keystore.type": self.ssl_keystore_type,
            "ssl.keystore.location": self.ssl_keystore_location,
            "ssl.keystore.password": self.ssl_keystore_password,
            "ssl.keystore.key": self.ssl_keystore_key,
            "ssl.keystore.certificate.chain": self.ssl_keystore_certificate_chain,
            "ssl.key.password": self.ssl_key_password,
            "ssl.truststore.type": self.ssl_truststore_type,
            "ssl.truststore.location": self.ssl_truststore_location,
            "ssl.truststore.password": self.ssl_truststore_password,
            "ssl.truststore.certificates": self.ssl_truststore_certificates,
            "ssl.enabled.protocols": ",".join(self.ssl_enabled_protocols),
            "ssl.protocol": self.ssl_protocol,
            "ssl.cipher.suites": ",".join(self.ssl_cipher_suites),
            "ssl.client.auth": self.ssl_client_auth,
        }
        return {name: text for name, text in values.items() if text is not None}


def parse_prefixed(setting: Setting[object], name: str, text: str) -> object:
    """Parses the value of a setting; an error names it as it was written."""
    try:
        return setting.parse(text)
    except InvalidSetting as error:
        raise InvalidSetting(name, error.value, error.reason) from None
