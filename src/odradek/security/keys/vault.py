"""Topic keys in the transit engine of HashiCorp Vault, or of OpenBao, which has the same API.

Vault wraps and unwraps; a topic key never leaves it. The broker's token needs `update` on
`transit/encrypt/NAME` and `transit/decrypt/NAME`, and `read` on `transit/keys/NAME`: Vault creates
a key that does not exist when it is asked to encrypt with it, so this is asked before. A deleted
key would come to life again otherwise, as another one.

Log-in is by a token in a file, or by an AppRole. All calls wait, in worker threads.
"""

import base64
import binascii
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from odradek.config import BrokerSettings
from odradek.config.setting import InvalidSetting
from odradek.security.keys.provider import (
    KeyDescription,
    KeyMissing,
    KeyProviderError,
    KeyUnavailable,
    NotUnwrapped,
)
from odradek.world import World

_MAX_ANSWER_BYTES: Final = 16 << 20


class VaultOptions(NamedTuple):
    url: str
    mount: str = "transit"
    namespace: str | None = None
    token_file: str | None = None
    role_id: str | None = None
    secret_id_file: str | None = None
    ca_file: str | None = None
    timeout_s: float = 5.0


def vault_options(settings: BrokerSettings) -> VaultOptions:
    """Raises `InvalidSetting` if something is missing."""
    url = settings.odradek_vault_url
    if not url or not url.startswith(("http://", "https://")):
        raise InvalidSetting(
            "odradek.vault.url", url or "(empty)", "must be an address like https://HOST:8200"
        )
    has_role = settings.odradek_vault_role_id and settings.odradek_vault_secret_id_file
    if not settings.odradek_vault_token_file and not has_role:
        raise InvalidSetting(
            "odradek.vault.token.file",
            "(empty)",
            "name a file with a token, or odradek.vault.role.id and odradek.vault.secret.id.file",
        )
    return VaultOptions(
        url.rstrip("/"),
        settings.odradek_vault_mount.strip("/"),
        settings.odradek_vault_namespace,
        settings.odradek_vault_token_file,
        settings.odradek_vault_role_id,
        settings.odradek_vault_secret_id_file,
        settings.odradek_vault_ca_file,
        settings.odradek_vault_timeout_ms / 1000,
    )


class _Refused(Exception):
    """Vault answered with an error."""

    def __init__(self, status: int, errors: str) -> None:
        super().__init__(errors)
        self.status = status
        self.errors = errors


class Vault:
    def __init__(self, options: VaultOptions, world: World) -> None:
        self._options = options
        self._disk = world.disk
        self._token: str | None = None
        self._context = ssl.create_default_context() if options.url.startswith("https") else None
        if self._context is not None and options.ca_file:
            self._context.load_verify_locations(options.ca_file)

    def __repr__(self) -> str:
        return f"Vault({self._options.url})"

    # Wrapping

    def wrap(self, name: str, data_keys: Sequence[bytes]) -> list[bytes]:
        self.describe(name)
        batch = [{"plaintext": base64.b64encode(key).decode()} for key in data_keys]
        results = self._batch("encrypt", name, batch)
        return [str(_field(result, "ciphertext")).encode() for result in results]

    def unwrap(self, name: str, wrapped: Sequence[bytes]) -> list[bytes]:
        batch = [{"ciphertext": blob.decode("ascii", "replace")} for blob in wrapped]
        results = self._batch("decrypt", name, batch)
        try:
            return [base64.b64decode(_field(result, "plaintext")) for result in results]
        except (TypeError, binascii.Error):
            raise KeyUnavailable(f"Vault at {self._options.url} answers nonsense") from None

    def version_of(self, wrapped: bytes) -> int:
        parts = wrapped.split(b":")
        return int(parts[1][1:]) if len(parts) == 3 and parts[1][1:].isdigit() else 0

    def _batch(
        self, action: str, name: str, batch: Sequence[dict[str, str]]
    ) -> list[dict[str, Any]]:
        try:
            answer = self._ask("POST", f"{action}/{quote(name)}", {"batch_input": list(batch)})
        except _Refused as refused:
            raise self._explained(refused, name) from None
        results = answer.get("data", {}).get("batch_results", [])
        if len(results) != len(batch):
            raise KeyUnavailable(f"Vault at {self._options.url} answers nonsense")
        for result in results:
            if result.get("error"):
                raise self._explained(_Refused(400, str(result["error"])), name)
        return list(results)

    # Administration

    def create(self, name: str) -> None:
        if name in self.names():
            raise KeyProviderError(
                f"Vault has a key {name} already; `odradek keys rotate` gives it a new version"
            )
        self._change("POST", name, "", {"type": "aes256-gcm96"})

    def rotate(self, name: str) -> int:
        self.describe(name)
        self._change("POST", name, "/rotate", {})
        return self.describe(name).latest

    def destroy(self, name: str) -> None:
        self.describe(name)
        self._change("POST", name, "/config", {"deletion_allowed": True})
        self._change("DELETE", name, "", None)

    def _change(self, method: str, name: str, what: str, body: dict[str, Any] | None) -> None:
        try:
            self._ask(method, f"keys/{quote(name)}{what}", body)
        except _Refused as refused:
            raise self._explained(refused, name) from None

    def names(self) -> list[str]:
        try:
            answer = self._ask("GET", "keys?list=true", None)
        except _Refused as refused:
            if refused.status == 404:
                return []
            raise self._explained(refused, "") from None
        return sorted(answer.get("data", {}).get("keys", []))

    def describe(self, name: str) -> KeyDescription:
        try:
            answer = self._ask("GET", f"keys/{quote(name)}", None)
        except _Refused as refused:
            raise self._explained(refused, name) from None
        versions = answer.get("data", {}).get("keys", {})
        return KeyDescription(
            name, {int(version): _time_ms(at) for version, at in versions.items()}
        )

    # Asking

    def _explained(self, refused: _Refused, name: str) -> KeyProviderError:
        where = f"Vault at {self._options.url}"
        if refused.status == 404 or "key not found" in refused.errors:
            return KeyMissing(f"{where} has no key {name}; `odradek keys create {name}` makes one")
        if refused.status == 403:
            return KeyUnavailable(
                f"{where} denies the use of the key {name}: let the token's policy allow it, or "
                "renew the token"
            )
        if refused.status == 400:
            return NotUnwrapped(f"{where} does not unwrap with the key {name}: {refused.errors}")
        return KeyUnavailable(f"{where} answers {refused.status}: {refused.errors}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Asks the transit engine, with a new log-in if the token is not valid any more."""
        had_token = self._token is not None
        try:
            return self._send(method, f"{self._options.mount}/{path}", body, self._logged_in())
        except _Refused as refused:
            if refused.status != 403 or not had_token:
                raise
        self._token = None
        return self._send(method, f"{self._options.mount}/{path}", body, self._logged_in())

    def _logged_in(self) -> str:
        if self._token is None:
            options = self._options
            if options.token_file:
                self._token = self._read(options.token_file)
            else:
                assert options.secret_id_file is not None
                login = {
                    "role_id": options.role_id,
                    "secret_id": self._read(options.secret_id_file),
                }
                try:
                    answer = self._send("POST", "auth/approle/login", login, None)
                except _Refused as refused:
                    raise KeyUnavailable(
                        f"Vault at {options.url} refuses the AppRole {options.role_id}: "
                        f"{refused.errors}"
                    ) from None
                self._token = str(_field(answer.get("auth") or {}, "client_token"))
        return self._token

    def _read(self, path: str) -> str:
        try:
            return self._disk.read(path).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyUnavailable(f"{path} cannot be read: {error}") from None

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None, token: str | None
    ) -> dict[str, Any]:
        options = self._options
        headers = {"Content-Type": "application/json", "X-Vault-Request": "true"}
        if token is not None:
            headers["X-Vault-Token"] = token
        if options.namespace:
            headers["X-Vault-Namespace"] = options.namespace
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            f"{options.url}/v1/{path}",
            None if body is None else json.dumps(body).encode(),
            headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=options.timeout_s, context=self._context
            ) as response:
                return _decoded(response.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            answer = _decoded(error.read(_MAX_ANSWER_BYTES))
            errors = "; ".join(map(str, answer.get("errors") or [])) or error.reason
            batch = (answer.get("data") or {}).get("batch_results")
            if batch:
                errors = "; ".join(str(result.get("error")) for result in batch[:1])
            raise _Refused(error.code, errors) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise KeyUnavailable(f"Vault at {options.url} cannot be reached: {reason}") from None


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content) if content else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _field(fields: dict[str, Any], name: str) -> Any:
    if name not in fields:
        raise KeyUnavailable(f"Vault's answer has no {name}")
    return fields[name]


def _time_ms(created: object) -> int:
    """Vault says seconds, or for keys of some types the time in a structure."""
    return created * 1000 if isinstance(created, int) else 0
