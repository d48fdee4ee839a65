"""Topic keys in a file."""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from odradek.config import BrokerSettings, InvalidSetting, check_topic_overrides
from odradek.config.topic_checks import check_has_key_provider
from odradek.security.keys.key_file import KeyFile
from odradek.security.keys.opening import open_provider
from odradek.security.keys.provider import (
    KeyMissing,
    KeyProviderError,
    KeyUnavailable,
    NotUnwrapped,
)
from odradek.world import World

KEYS = [bytes([number]) * 32 for number in range(3)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "topics.json"


@pytest.fixture
def file(path: Path) -> KeyFile:
    made = KeyFile(str(path), World())
    made.create("orders")
    return made


def test_only_its_owner_reads_the_file(file: KeyFile, path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_old_versions_unwrap(file: KeyFile) -> None:
    before = file.wrap("orders", KEYS)
    assert file.rotate("orders") == 2
    after = file.wrap("orders", KEYS)
    assert [file.version_of(blob) for blob in (before[0], after[0])] == [1, 2]
    assert file.unwrap("orders", before + after) == KEYS + KEYS


def test_names_are_bound(file: KeyFile, path: Path) -> None:
    """A wrapped key of one topic key is of no use under another name with the same bytes."""
    wrapped = file.wrap("orders", KEYS)
    found = json.loads(path.read_text())
    found["keys"]["bills"] = found["keys"]["orders"]
    path.write_text(json.dumps(found))
    with pytest.raises(NotUnwrapped):
        file.unwrap("bills", wrapped)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 2}', b'{"version":1,"keys":3}'])
def test_a_damaged_file_is_said(file: KeyFile, path: Path, damage: bytes) -> None:
    path.write_bytes(damage)
    with pytest.raises(KeyUnavailable, match="is not a key file of Odradek"):
        file.wrap("orders", KEYS)
    with pytest.raises(KeyUnavailable):
        file.create("bills")
    assert path.read_bytes() == damage


def test_a_damaged_wrapped_key_is_said(file: KeyFile) -> None:
    (wrapped,) = file.wrap("orders", KEYS[:1])
    for damaged in (b"", wrapped[:20], wrapped[:-1] + bytes([wrapped[-1] ^ 1])):
        with pytest.raises((NotUnwrapped, KeyMissing)):
            file.unwrap("orders", [damaged])


def test_keys_that_are_missing_or_there_are_said(file: KeyFile) -> None:
    with pytest.raises(KeyProviderError, match="has a key orders already"):
        file.create("orders")
    for call in (file.rotate, file.destroy, file.describe):
        with pytest.raises(KeyMissing, match="`odradek keys create bills`"):
            call("bills")


def test_a_topic_is_refused_without_provider_and_without_cryptography() -> None:
    wanted = check_topic_overrides(
        {"odradek.encryption.key": "orders"}, BrokerSettings().topic_defaults
    )
    with pytest.raises(InvalidSetting, match="the broker has no key provider"):
        check_has_key_provider(wanted, "none")
    check_has_key_provider(wanted, "file")
    with (
        patch("importlib.util.find_spec", return_value=None),
        pytest.raises(InvalidSetting, match=r"pip install '.*\[security\]'"),
    ):
        check_has_key_provider(wanted, "file")
    with pytest.raises(InvalidSetting, match="must be the name of a key"):
        check_topic_overrides({"odradek.encryption.key": "a/b"}, BrokerSettings().topic_defaults)


class Own:
    """A provider of a user."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.secret = properties["own.secret"]


def test_a_provider_of_a_user_gets_all_properties() -> None:
    name = f"{__name__}:Own"
    sys.modules[__name__] = sys.modules[Own.__module__]
    settings = BrokerSettings.from_properties({"odradek.key.provider": name, "own.secret": "x"})
    made = open_provider(settings, World())
    assert isinstance(made, Own)
    assert made.secret == "x"
    for wrong in ("nowhere:Own", "odradek:Nothing", "vaultt"):
        settings = BrokerSettings.from_properties({"odradek.key.provider": wrong})
        with pytest.raises(InvalidSetting, match="must be file, vault or package"):
            open_provider(settings, World())
