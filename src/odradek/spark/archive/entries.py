"""The entries of the archive's log, the state that they add up to, and file names. No Spark, no
I/O.

    DIRECTORY/
      _odradek/log/00000000000000000007.json    entries, each made once and never changed
      _odradek/log/00000000000000000007.state   what all entries up to 7 add up to: a shortcut
      _odradek/staging/{run}/{number}/          files of an entry to come
      topic=clicks/date=2026-11-15/hour=07/
        records-clicks-3-00000000000000000000-00000000000000199999-7.parquet

An entry is decided when its JSON file exists. After that its Parquet files are moved into place,
and only then is the next entry made. So at most the last entry can be unfinished, and the next run
or reader finishes it. Programs that read Parquet directories ignore names that begin with an
underscore, so they do not see staged files.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from odradek.protocol.types import TopicPartition

LOG: Final = "_odradek/log"
STAGING: Final = "_odradek/staging"
SCRATCH: Final = "_odradek/scratch"
_FORMAT: Final = 1

Offsets = dict[TopicPartition, int]
Kind = Literal["claim", "append", "compact"]


class DamagedArchive(Exception):
    """The log of an archive is damaged, or was written by a newer version."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file with records of one partition and one hour. `last_offset` is included."""

    topic: str
    partition: int
    date: str
    hour: str
    first_offset: int
    last_offset: int
    rows: int
    size_bytes: int
    first_ms: int
    last_ms: int
    name: str

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"

    @property
    def directory(self) -> str:
        return f"topic={self.topic}/date={self.date}/hour={self.hour}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def with_number(self, number: int) -> "DataFile":
        """Returns the file with the name that it gets in the entry of this number. File names
        contain the number, so no two entries use the same name."""
        name = (
            f"records-{self.topic}-{self.partition}-{self.first_offset:020d}"
            f"-{self.last_offset:020d}-{number}.parquet"
        )
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [first_offset, end_offset) that were deleted from the topic before they could be
    archived."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of the archive.

    `added` pairs each file with the path where it is staged. `offsets` holds the next offset of
    each partition that was read, and `topic_ids` the ids of their topics: a topic that is deleted
    and created again has another id. An entry of kind "claim" adds nothing. The run that makes it
    takes the archive over, because an older run can no longer make the entry of the same number.
    """

    number: int
    run: str
    kind: Kind
    made_ms: int
    added: tuple[tuple[DataFile, str], ...] = ()
    removed: tuple[str, ...] = ()
    offsets: tuple[tuple[TopicPartition, int], ...] = ()
    gaps: tuple[Gap, ...] = ()
    topic_ids: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> bytes:
        written = asdict(self) | {
            "format": _FORMAT,
            "added": [asdict(file) | {"staged": staged} for file, staged in self.added],
            "offsets": _offsets_json(dict(self.offsets)),
            "topic_ids": dict(self.topic_ids),
        }
        return json.dumps(written, indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> "Entry":
        read = _read_json(text, where)
        try:
            added = []
            for file in read["added"]:
                staged = file.pop("staged")
                added.append((DataFile(**file), staged))
            return cls(
                number=read["number"],
                run=read["run"],
                kind=read["kind"],
                made_ms=read["made_ms"],
                added=tuple(added),
                removed=tuple(read["removed"]),
                offsets=tuple(_offsets_from(read["offsets"]).items()),
                gaps=tuple(Gap(**gap) for gap in read["gaps"]),
                topic_ids=tuple(read.get("topic_ids", {}).items()),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArchive(f"{where} is damaged: {error!r}") from None


@dataclass(slots=True)
class State:
    """The sum of all entries up to `number`; -1 is before the first entry."""

    number: int = -1
    archive_id: str = ""
    run: str = ""
    files: dict[str, DataFile] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    # Entries of older versions have no topic ids.
    topic_ids: dict[str, str] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        """Applies the next entry. Raises `DamagedArchive` if it is not the next one, or does not
        fit."""
        if entry.number != self.number + 1:
            raise DamagedArchive(
                f"entry {self.number + 1} of the archive's log is missing: {entry.number} follows"
            )
        for path in entry.removed:
            if self.files.pop(path, None) is None:
                raise DamagedArchive(f"entry {entry.number} removes {path}, which is not there")
        self.files |= {file.path: file for file, _ in entry.added}
        self.offsets |= dict(entry.offsets)
        self.gaps += entry.gaps
        self.topic_ids |= dict(entry.topic_ids)
        self.archive_id = self.archive_id or entry.run
        self.number, self.run = entry.number, entry.run

    def to_json(self) -> bytes:
        written = {
            "format": _FORMAT,
            "number": self.number,
            "archive_id": self.archive_id,
            "run": self.run,
            "files": [asdict(file) for file in self.files.values()],
            "offsets": _offsets_json(self.offsets),
            "gaps": [asdict(gap) for gap in self.gaps],
            "topic_ids": self.topic_ids,
        }
        return json.dumps(written).encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> "State":
        read = _read_json(text, where)
        try:
            files = [DataFile(**file) for file in read["files"]]
            return cls(
                read["number"],
                read["archive_id"],
                read["run"],
                {file.path: file for file in files},
                _offsets_from(read["offsets"]),
                [Gap(**gap) for gap in read["gaps"]],
                dict(read.get("topic_ids", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArchive(f"{where} is damaged: {error!r}") from None

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.offsets})

    def files_of(self, topic: str) -> list[DataFile]:
        files = [file for file in self.files.values() if file.topic == topic]
        return sorted(files, key=lambda file: (file.partition, file.first_offset, file.last_offset))

    def partitions_of(self, topic: str) -> int:
        """Returns how many partitions a restored topic needs."""
        return 1 + max(
            partition.partition for partition in self.offsets if partition.topic == topic
        )


def topics_in(texts: Mapping[str, bytes]) -> set[str]:
    """Returns the topics that are named in the files of a log, by the names of these files."""
    states, entries = numbers_in(texts, ".state"), numbers_in(texts, ".json")
    topics: set[str] = set()
    for path in [*map(state_path, states), *map(entry_path, entries)]:
        name = path.removeprefix(f"{LOG}/")
        topics |= set(_read_json(texts[name], name).get("offsets", {}))
    return topics


def entry_path(number: int) -> str:
    return f"{LOG}/{number:020d}.json"


def state_path(number: int) -> str:
    return f"{LOG}/{number:020d}.state"


def numbers_in(names: Iterable[str], ending: str) -> list[int]:
    """Returns the numbers of the entries (`.json`) or states (`.state`) among the names of
    files."""
    stems = [name.removesuffix(ending) for name in names if name.endswith(ending)]
    return sorted(int(stem) for stem in stems if stem.isdigit())


def _read_json(text: bytes, where: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise DamagedArchive(f"{where} is not JSON: {error}") from None
    if not isinstance(read, dict) or read.get("format") != _FORMAT:
        raise DamagedArchive(f"{where} was made by another version: update odradek")
    return read


def _offsets_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    written: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        written.setdefault(topic, {})[str(partition)] = offset
    return written


def _offsets_from(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in written.items()
        for partition, offset in offsets.items()
    }
