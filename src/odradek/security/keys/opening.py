"""Opens the key provider that settings name."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

from odradek.config import BrokerSettings
from odradek.config.setting import InvalidSetting
from odradek.security.keys.provider import KeyProvider
from odradek.world import World
from odradek.world.installing import install_line


def open_provider(settings: BrokerSettings, world: World) -> KeyProvider:
    """Raises `InvalidSetting` if the settings do not describe a provider."""
    name = settings.odradek_key_provider
    _require_cryptography(name)
    if name == "file":
        from odradek.security.keys.key_file import KeyFile  # noqa: PLC0415 - if asked for

        if not settings.odradek_key_file:
            raise InvalidSetting(
                "odradek.key.file",
                "(empty)",
                "name the file with the keys, which `odradek keys create` makes",
            )
        return KeyFile(settings.odradek_key_file, world)
    if name == "vault":
        from odradek.security.keys.vault import Vault, vault_options  # noqa: PLC0415 - if asked for

        return Vault(vault_options(settings), world)
    module, _, attribute = name.partition(":")
    try:
        factory: Callable[[Mapping[str, str]], KeyProvider] = getattr(
            import_module(module), attribute
        )
        return factory(settings.layers.static)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(
            "odradek.key.provider", name, f"must be file, vault or package.module:Class; {error}"
        ) from None


def _require_cryptography(provider: str) -> None:
    if find_spec("cryptography") is None:
        raise InvalidSetting(
            "odradek.key.provider",
            provider,
            f"encryption needs the package cryptography: {install_line('security')}",
        )
