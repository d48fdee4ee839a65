"""Settings of the key provider, which keeps the keys of encrypted topics (docs/encryption.md)."""

from typing import Final

from odradek.config.kinds import long, string
from odradek.config.setting import Importance, Settings

NO_PROVIDER: Final = "none"


class KeySettings(Settings):
    odradek_key_provider = string(
        "odradek.key.provider",
        NO_PROVIDER,
        "Where the keys of encrypted topics are kept: `file` (odradek.key.file), `vault` "
        "(HashiCorp Vault or OpenBao), or package.module:Class for a provider of your own. `none`: "
        "no topic can be encrypted.",
        importance=Importance.HIGH,
        may_be_empty=False,
    )
    odradek_key_file = string(
        "odradek.key.file",
        None,
        "The file with the keys, for odradek.key.provider=file. `odradek keys create` makes it. "
        "Keep it on another disk than log.dirs.",
    )
    odradek_key_refresh_ms = long(
        "odradek.key.refresh.ms",
        60_000,
        "How often the key provider is asked whether a key was rotated or deleted.",
        at_least=100,
    )
    odradek_vault_url = string(
        "odradek.vault.url",
        None,
        "The address of Vault or OpenBao, such as https://vault.example.com:8200.",
    )
    odradek_vault_mount = string(
        "odradek.vault.mount",
        "transit",
        "The path at which Vault's transit engine is mounted.",
        may_be_empty=False,
    )
    odradek_vault_namespace = string(
        "odradek.vault.namespace", None, "The namespace in Vault, if it has namespaces."
    )
    odradek_vault_token_file = string(
        "odradek.vault.token.file",
        None,
        "A file with a token of Vault. It is read again for each log-in, so that an agent may "
        "renew it.",
    )
    odradek_vault_role_id = string(
        "odradek.vault.role.id",
        None,
        "The role id of an AppRole, in place of a token. It needs odradek.vault.secret.id.file.",
    )
    odradek_vault_secret_id_file = string(
        "odradek.vault.secret.id.file", None, "A file with the secret id of the AppRole."
    )
    odradek_vault_ca_file = string(
        "odradek.vault.ca.file",
        None,
        "The certificates (PEM) of the authorities that Vault's certificate is checked against. If "
        "unset: those of the operating system.",
    )
    odradek_vault_timeout_ms = long(
        "odradek.vault.timeout.ms",
        5_000,
        "How long a request to Vault may take.",
        at_least=100,
    )
