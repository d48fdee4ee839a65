"""This version on data directories of an earlier one, and what it writes itself."""

import re
import tarfile
from pathlib import Path

import pytest

from tests.upgrade.content import ORDERS, broker, check, write, write_more
from tests.upgrade.formats import formats

ROOT = Path(__file__).parents[2]
RECORDED = sorted((ROOT / "tests/data/upgrade").glob("*.tar.xz"))
TABLE = re.compile(r"^\| ((?:node )?`[^|]+) \| (\d+)(?: \(([^|]+)\))? \|", re.MULTILINE)


def unpacked(archive: Path, directory: Path) -> Path:
    with tarfile.open(archive) as content:
        content.extractall(directory, filter="data")
    return directory / "data"


def parted(text: str) -> tuple[str, set[str]]:
    """Returns the version and the keys of a format, as in `1 (id, name)`."""
    version, _, keys = text.partition(" (")
    return version, set(keys.rstrip(")").split(", ")) if keys else set()


@pytest.mark.parametrize("archive", RECORDED, ids=lambda archive: archive.name.split(".")[0])
def test_everything_is_found_and_more_is_written(archive: Path, tmp_path: Path) -> None:
    data = unpacked(archive, tmp_path)
    assert len(list((data / f"{ORDERS}-0").glob("*.log"))) > 1
    with broker(None, data) as bootstrap:
        check(bootstrap)
        write_more(bootstrap)
    with broker(None, data) as bootstrap:
        check(bootstrap, more=True)


def test_both_ends_of_a_broker_are_recorded() -> None:
    assert {archive.name.split(".")[0].rpartition("-")[2] for archive in RECORDED} == {
        "clean",
        "killed",
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The formats that this version writes."""
    data = tmp_path_factory.mktemp("new") / "data"
    with broker(None, data) as bootstrap:
        write(bootstrap)
    return formats(data)


def test_the_page_tells_what_this_version_writes(written: dict[str, str]) -> None:
    """If this fails, a format has changed: say in docs/upgrade.md whether one may go back."""
    page = (ROOT / "docs/upgrade.md").read_text()
    told = {
        name: version + (f" ({keys})" if keys else "")
        for name, version, keys in TABLE.findall(page)
    }
    assert told == written


@pytest.mark.parametrize("archive", RECORDED, ids=lambda archive: archive.name.split(".")[0])
def test_an_earlier_version_may_read_it(
    archive: Path, tmp_path: Path, written: dict[str, str]
) -> None:
    """The same versions, and no key is gone: what the promise about going back rests on."""
    for name, earlier in formats(unpacked(archive, tmp_path)).items():
        version, keys = parted(written[name])
        earlier_version, earlier_keys = parted(earlier)
        assert version == earlier_version, name
        assert keys >= earlier_keys, name
