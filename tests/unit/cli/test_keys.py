"""`odradek keys`: create, show, rotate, rewrap and shred, with a key file."""

import json
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.storage.encryption.encrypting_disk import slots_below
from odradek.storage.encryption.rewrapping import rewrap_directory
from odradek.world import MemoryDisk, World
from tests.unit.storage.encryption.encrypted_world import (
    DIRECTORY,
    KEY,
    create_key,
    encrypting_manager,
)
from tests.unit.storage.encryption.test_encrypted_logs import append, log_of
from tests.unit.storage.storage_world import make_world, read_all


def run(*arguments: str) -> int:
    return main(["keys", *arguments])


def test_a_key_from_its_creation_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--key-file", str(tmp_path / "keys" / "topics.json"))
    assert run("create", "orders", *where) == 0
    assert run("rotate", "orders", *where) == 0
    assert capsys.readouterr().out.endswith("has version 2 now. New segments use it.\n")
    assert run("show", "--json", *where) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["name"] == "orders"
    assert list(shown["versions"]) == ["1", "2"]
    assert run("show", *where) == 0
    assert "orders" in capsys.readouterr().out
    assert run("shred", "orders", *where) == 1
    assert "add --force" in capsys.readouterr().err
    assert run("shred", "orders", "--force", *where) == 0
    assert run("rotate", "orders", *where) == 1
    assert "has no key orders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create",), "name the key, as in: odradek keys create orders"),
        (("create", "orders"), "say where the keys are"),
        (("rewrap", "--key-file", "x"), "rewrap needs --config"),
        (("show", "--key-file", "/nowhere/keys.json"), "does not exist; mount it"),
    ],
)
def test_what_is_missing_is_said(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) != 0
    assert said in capsys.readouterr().err


async def test_rewrapping_lets_the_old_version_go_and_keeps_every_record() -> None:
    """Also those of a file that was cut, whose last part is in its header."""
    world = make_world()
    provider = create_key(world)
    manager = encrypting_manager(world, log_segment_bytes="20000")
    await manager.load()
    log = log_of(manager)
    append(log, 300)
    log.truncate_to(log.segments[1].base_offset + 7)
    append(log, 10)
    expected = read_all(log)
    await manager.close()

    provider.rotate(KEY)
    done = rewrap_directory(world.disk, "/data", provider, None)
    assert done.encrypted == done.changed == len(slots_below(world.disk, DIRECTORY)) > 2
    assert rewrap_directory(world.disk, "/data", provider, None).changed == 0
    assert {provider.version_of(slot.wrapped) for slot in slots_below(world.disk, DIRECTORY)} == {2}
    drop_version(world, "1")
    manager = encrypting_manager(world)
    await manager.load()
    assert read_all(log_of(manager)) == expected


def drop_version(world: World, version: str) -> None:
    """Deletes a version in the key file, as an operator does after a leak."""
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    found = json.loads(disk.read("/keys/topics.json"))
    del found["keys"][KEY][version]
    disk.replace("/keys/topics.json", json.dumps(found).encode())
