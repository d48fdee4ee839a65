"""The settings of services that ask a schema registry, with their callers' log-in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from odradek.client.errors import SettingsError
from odradek.config.kinds import string
from odradek.config.program_settings import option
from odradek.schemas.errors import BadSetting
from odradek.schemas.registry_settings import RegistrySettings
from odradek.services.settings import TLS, ServiceSettings

_REGISTRY: Final = "schema.registry."


@dataclass(frozen=True, kw_only=True)
class WithRegistry(ServiceSettings):
    """The settings of a service that asks a schema registry, beside those of every service."""

    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the registry is reached: settings `schema.registry.ssl.`, passed on to its clients."""

    schema_registry_url: str = option(
        string(
            "schema.registry.url",
            "",
            "The schema registry for Avro, JSON Schema and Protobuf, as http://127.0.0.1:8081.",
        )
    )

    @classmethod
    def _pass_on(cls, name: str, value: str, passed: dict[str, Any]) -> bool:
        rest = name.removeprefix(_REGISTRY)
        if rest == name:
            return super()._pass_on(name, value, passed)
        if rest.startswith(("basic.auth.", "bearer.auth.", "sasl.")):
            raise SettingsError(
                f"{name} would be a log-in of the service itself at the registry, but the service"
                " passes on that of its callers (docs/rest.md, Who asks). Leave it out"
            )
        if rest not in TLS:
            return False
        passed.setdefault("registry", {})[name] = value
        return True

    def _check_together(self) -> None:
        super()._check_together()
        addresses = self.schema_registry_url.split(",")
        if self.uses_sasl and any(urlsplit(address.strip()).username for address in addresses):
            raise SettingsError(
                "schema.registry.url has a user, but the service passes on the log-in of its"
                " callers: leave the user out"
            )
        if self.schema_registry_url:
            try:
                RegistrySettings.from_properties(self.registry_properties())
            except BadSetting as error:
                raise SettingsError(str(error)) from None

    def registry_properties(self) -> dict[str, str]:
        """Returns the properties of clients of the registry, without a log-in."""
        return {"schema.registry.url": self.schema_registry_url, **self.registry}
