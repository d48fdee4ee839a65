"""How this broker proves to other brokers who it is: TLS and SASL of the inter-broker listener.

The settings are the broker's own. `listener.name.NAME.ssl...` of the listener that brokers use wins
over `ssl...`; the mechanism is `sasl.mechanism.inter.broker.protocol`, and user name and password
are in `listener.name.NAME.MECHANISM.sasl.jaas.config`, or in the section `NAME.KafkaServer` or
`KafkaServer` of the JAAS file that KAFKA_OPTS names. A broker whose listener is PLAINTEXT imports
none of this.
"""

from collections.abc import Mapping
from typing import Final

from odradek.client.errors import SettingsError
from odradek.client.login import MODULES
from odradek.client.security import ClientSecurity
from odradek.client.settings.shared import AdminSettings
from odradek.config import BrokerSettings, InvalidSetting
from odradek.config.live import LiveSettings
from odradek.config.setting import merge
from odradek.security.jaas import (
    SERVER_SECTION,
    InvalidJaas,
    jaas_file_path,
    jaas_line,
    parse_jaas_file,
)
from odradek.world.disk import Disk
from odradek.world.environment import environment
from odradek.world.randomness import Randomness

_JAAS: Final = "sasl.jaas.config"


class PeerSecurity:
    """What connections to other brokers need; it follows changes of the settings."""

    def __init__(self, settings: LiveSettings, disk: Disk, randomness: Randomness) -> None:
        """Raises `InvalidSetting`, so that a broker that cannot log in does not start."""
        self._settings = settings
        self._disk = disk
        self._randomness = randomness
        self._seen = settings.broker
        try:
            self._properties = self._read()
            self._security = self._make()
        except SettingsError as error:
            name = settings.broker.effective_inter_broker_listener_name
            raise InvalidSetting("inter.broker.listener.name", name, str(error)) from None

    def current(self) -> ClientSecurity:
        """Returns what a new connection uses; raises `SettingsError` for new, bad settings."""
        if self._settings.broker is not self._seen:
            properties = self._read()
            if properties != self._properties:
                self._properties = properties
                self._security = self._make()
            self._seen = self._settings.broker
        return self._security

    def _read(self) -> dict[str, str]:
        return peer_properties(self._settings.broker, environment(), self._disk)

    def _make(self) -> ClientSecurity:
        return ClientSecurity(AdminSettings.from_properties(self._properties), self._randomness)


def peer_properties(
    settings: BrokerSettings, environment: Mapping[str, str], disk: Disk
) -> dict[str, str]:
    """Returns the client properties of connections to other brokers. Raises `SettingsError`."""
    listener = settings.effective_inter_broker_listener_name
    protocol = settings.security_protocol(listener)
    layers = settings.layers
    given = merge(layers.static, layers.dynamic_default, layers.dynamic_broker)
    prefix = f"listener.name.{listener.lower()}."
    properties = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        properties |= _prefixed(given, prefix, "ssl.")
        # This one has no prefix in Kafka: it is about the names of other brokers.
        properties["ssl.endpoint.identification.algorithm"] = (
            settings.ssl_endpoint_identification_algorithm
        )
    if protocol.startswith("SASL"):
        mechanism = settings.sasl_mechanism_inter_broker_protocol.upper()
        properties |= _prefixed(given, prefix, "sasl.")
        properties |= _prefixed(given, f"{prefix}{mechanism.lower()}.", "sasl.")
        properties["sasl.mechanism"] = mechanism
        own = settings.listener(listener).of_mechanism(mechanism)
        if mechanism == "GSSAPI":
            relogin_ms = own.sasl_kerberos_min_time_before_relogin
            properties["sasl.kerberos.min.time.before.relogin"] = str(relogin_ms)
        if _JAAS not in properties:
            line = _from_file(environment, disk, listener.lower(), mechanism)
            if line is not None:
                properties[_JAAS] = line
    return properties


def _prefixed(given: Mapping[str, str], prefix: str, kind: str) -> dict[str, str]:
    """Returns the client's settings of one kind, those with the listener's prefix where they are.

    A listener has settings that are for its server's side alone; those are left out.
    """
    found: dict[str, str] = {}
    for name in AdminSettings.declared():
        if name.startswith(kind):
            text = given.get(prefix + name, given.get(name))
            if text is not None:
                found[name] = text
    return found


def _from_file(
    environment: Mapping[str, str], disk: Disk, listener: str, mechanism: str
) -> str | None:
    path = jaas_file_path(environment)
    if path is None:
        return None
    try:
        sections = parse_jaas_file(disk.read(path).decode())
    except (OSError, UnicodeDecodeError, InvalidJaas) as error:
        raise SettingsError(f"{path}, which KAFKA_OPTS names: {error}") from None
    modules = sections.get(f"{listener}.{SERVER_SECTION}") or sections.get(SERVER_SECTION, ())
    for module in modules:
        if module.short_name == MODULES.get(mechanism):
            return jaas_line(module.name, module.options)
    return None
