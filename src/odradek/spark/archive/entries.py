"""What the archive's log says: entries, the state they add up to, and names. No Spark, no I/O.

    DIRECTORY/
      _odradek/log/00000000000000000007.json    entries, each made once and never changed
      _odradek/log/00000000000000000007.state   what all entries up to 7 add up to: a shortcut
      _odradek/staging/{run}/{number}/          files of an entry to come
      topic=clicks/date=2026-11-15/hour=07/
        records-clicks-3-00000000000000000000-00000000000000199999-7.parquet

An entry is decided when its file is there. Only then are its files moved into place, and only when
they are is the next entry made; so at most the last entry can be unfinished, and whoever comes next
finishes it. Names that begin with an underscore are passed over by everything that reads Parquet
directories, so what is staged is seen by nobody.
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
    """The log of an archive cannot be read, or was made by something newer."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file: records of one partition and one hour. `last_offset` is in it."""

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

    def named(self, number: int) -> "DataFile":
        """With the name it has in the entry of this number. Another entry gives another name."""
        name = (
            f"records-{self.topic}-{self.partition}-{self.first_offset:020d}"
            f"-{self.last_offset:020d}-{number}.parquet"
        )
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were gone before they could be archived: from `first_offset` to before `end`."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the archive.

    `added` pairs each file with where it is staged. `offsets` says where each partition that was
    read goes on, and `topic_ids` which topics they belong to: one that is deleted and made anew has
    another id. A claim adds nothing: whoever makes one takes over, because an older run cannot make
    the entry of the same number any more.
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
    """What all entries up to `number` add up to; -1 is before the first."""

    number: int = -1
    archive_id: str = ""
    run: str = ""
    files: dict[str, DataFile] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    # Entries that were made before ids were noted have none.
    topic_ids: dict[str, str] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        """Takes the next entry; says so if it is not the next, or does not fit."""
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
        found = [file for file in self.files.values() if file.topic == topic]
        return sorted(found, key=lambda file: (file.partition, file.first_offset, file.last_offset))

    def partitions_of(self, topic: str) -> int:
        """How many partitions a copy needs."""
        return 1 + max(
            partition.partition for partition in self.offsets if partition.topic == topic
        )


def entry_path(number: int) -> str:
    return f"{LOG}/{number:020d}.json"


def state_path(number: int) -> str:
    return f"{LOG}/{number:020d}.state"


def numbers_in(names: Iterable[str], ending: str) -> list[int]:
    """The numbers of the entries (`.json`) or states (`.state`) among a directory's names."""
    stems = [name.removesuffix(ending) for name in names if name.endswith(ending)]
    return sorted(int(stem) for stem in stems if stem.isdigit())


def _read_json(text: bytes, where: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise DamagedArchive(f"{where} is no JSON: {error}") from None
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
