"""`odradek dump-log` on encrypted segments: gets their keys from a key provider."""

from odradek.cli.access.key_actions import settings_of
from odradek.security.keys.opening import open_provider
from odradek.security.keys.provider import KeyProviderError
from odradek.storage.encryption.data_keys import DataKey, DataKeys
from odradek.storage.encryption.encrypted_file import read_slots
from odradek.storage.encryption.encrypting_disk import EncryptingDisk
from odradek.tools.failures import CommandFailed
from odradek.world import OsDisk, Randomness, World


def disk_with_keys(
    disk: OsDisk, paths: list[str], key_file: str | None, config: str | None
) -> EncryptingDisk:
    """A disk that reads these segments, and those that these indexes belong to, wherever they were
    copied to."""
    provider = open_provider(settings_of(key_file, config), World())
    keys = DataKeys(Randomness())
    for log in sorted({path.rpartition(".")[0] + ".log" for path in paths}):
        if not disk.exists(log):
            continue
        file = disk.open(log, writable=False)
        try:
            for slot in read_slots(file)[:1]:
                (data_key,) = provider.unwrap(slot.key_name, [slot.wrapped])
                keys.add(DataKey(slot.key_name, slot.wrapped, data_key))
        except KeyProviderError as error:
            raise CommandFailed(f"cannot read {log}: {error}") from None
        finally:
            file.close()
    return EncryptingDisk(disk, keys, reads_unsealed=True, any_place=True)
