"""Topic keys in Vault, against a stand-in for its transit API."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.config import BrokerSettings, InvalidSetting
from odradek.security.keys.opening import open_provider
from odradek.security.keys.provider import (
    KeyMissing,
    KeyProviderError,
    KeyUnavailable,
    NotUnwrapped,
)
from odradek.security.keys.vault import Vault, VaultOptions
from odradek.world import World
from tests.certificates import Authority
from tests.unit.security.keys.transit_stand_in import Transit, transit

KEYS = [bytes([number]) * 32 for number in range(3)]


@pytest.fixture
def server() -> Iterator[Transit]:
    with transit() as found:
        found.keys["orders"] = {1: bytes(32)}
        yield found


def vault(server: Transit, directory: Path, **options: str) -> Vault:
    token = directory / "token"
    token.write_text("root\n")
    return Vault(VaultOptions(server.url, token_file=str(token), **options), World())  # type: ignore[arg-type]


def test_data_keys_are_wrapped_and_unwrapped(server: Transit, tmp_path: Path) -> None:
    provider = vault(server, tmp_path)
    wrapped = provider.wrap("orders", KEYS)
    assert all(blob.startswith(b"vault:v1:") for blob in wrapped)
    assert provider.unwrap("orders", wrapped) == KEYS
    assert len(server.requests) == 3, "one request for all keys, and one whether the key exists"


def test_keys_are_created_rotated_shown_and_deleted(server: Transit, tmp_path: Path) -> None:
    provider = vault(server, tmp_path)
    provider.create("bills")
    assert provider.names() == ["bills", "orders"]
    before = provider.wrap("bills", KEYS)
    assert provider.rotate("bills") == 2
    assert dict(provider.describe("bills").versions) == {
        1: 1_700_000_001_000,
        2: 1_700_000_002_000,
    }
    after = provider.wrap("bills", KEYS)
    assert [provider.version_of(blob) for blob in (before[0], after[0])] == [1, 2]
    assert provider.unwrap("bills", before + after) == KEYS + KEYS
    with pytest.raises(KeyProviderError, match="has a key bills already"):
        provider.create("bills")
    provider.destroy("bills")
    with pytest.raises(KeyMissing):
        provider.unwrap("bills", before)


def test_a_deleted_key_does_not_come_to_life_again(server: Transit, tmp_path: Path) -> None:
    """Vault creates the key that it is asked to encrypt with."""
    provider = vault(server, tmp_path)
    with pytest.raises(KeyMissing, match="has no key gone; `odradek keys create gone`"):
        provider.wrap("gone", KEYS)
    assert "gone" not in server.keys


def test_what_another_key_has_wrapped_is_refused(server: Transit, tmp_path: Path) -> None:
    provider = vault(server, tmp_path)
    (wrapped,) = provider.wrap("orders", KEYS[:1])
    server.keys["orders"] = {1: bytes(range(32))}
    with pytest.raises(NotUnwrapped, match="unable to decrypt"):
        provider.unwrap("orders", [wrapped])


def test_an_app_role_logs_in_again_when_its_token_ended(server: Transit, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    options = VaultOptions(server.url, role_id="role", secret_id_file=str(secret))
    provider = Vault(options, World())
    wrapped = provider.wrap("orders", KEYS)
    server.tokens.clear()
    assert provider.unwrap("orders", wrapped) == KEYS
    secret.write_text("another")
    server.tokens.clear()
    with pytest.raises(KeyUnavailable, match="refuses the AppRole role: invalid role or secret"):
        provider.unwrap("orders", wrapped)


def test_what_is_wrong_is_said(server: Transit, tmp_path: Path) -> None:
    provider = vault(server, tmp_path)
    server.is_sealed = True
    with pytest.raises(KeyUnavailable, match="answers 503: Vault is sealed"):
        provider.wrap("orders", KEYS)
    server.is_sealed = False
    server.tokens.clear()
    with pytest.raises(KeyUnavailable, match="denies the use of the key orders"):
        provider.wrap("orders", KEYS)
    (tmp_path / "token").unlink()
    with pytest.raises(KeyUnavailable, match="token cannot be read"):
        provider.wrap("orders", KEYS)
    nobody = Vault(VaultOptions("http://127.0.0.1:1", token_file=str(tmp_path / "t")), World())
    (tmp_path / "t").write_text("x")
    with pytest.raises(KeyUnavailable, match=r"cannot be reached: .*refused"):
        nobody.wrap("orders", KEYS)


def test_namespaces(server: Transit, tmp_path: Path) -> None:
    server.namespace = "team-a"
    assert vault(server, tmp_path, namespace="team-a").wrap("orders", KEYS)
    with pytest.raises(KeyProviderError):
        vault(server, tmp_path).wrap("orders", KEYS)


def test_https_checks_the_certificate(tmp_path: Path) -> None:
    authority = Authority()
    keystore = authority.issue("vault").keystore(tmp_path / "vault.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    ca_file = str(authority.truststore(tmp_path / "ca.pem"))
    with transit(context) as server:
        server.keys["orders"] = {1: bytes(32)}
        assert vault(server, tmp_path, ca_file=ca_file).wrap("orders", KEYS)
        with pytest.raises(KeyUnavailable, match=r"cannot be reached: .*certificate verify failed"):
            vault(server, tmp_path).wrap("orders", KEYS)


def test_settings_that_lack_something_are_refused() -> None:
    for given, lacks in (
        ({}, "odradek.vault.url"),
        ({"odradek.vault.url": "ftp://x"}, "odradek.vault.url"),
        ({"odradek.vault.url": "http://x"}, "odradek.vault.token.file"),
    ):
        settings = BrokerSettings.from_properties({"odradek.key.provider": "vault", **given})
        with pytest.raises(InvalidSetting, match=lacks):
            open_provider(settings, World())
