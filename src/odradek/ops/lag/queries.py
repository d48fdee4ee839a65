"""Where Spark queries are in their topics, read from the files that Spark keeps of them.

A query commits no offsets to Kafka. Its checkpoint tells where it is:

    CHECKPOINT/offsets/12     what batch 12 reads: a line with the version, one with the time, and
                              one with the end offsets of each source
    CHECKPOINT/commits/12     exists when batch 12 is done

So the offsets of the newest batch that is done are what the query has committed, and those of the
batches before it are its earlier commits. The queries of `odradek pipeline` are found in its
directory, which tells whether they run too; other checkpoints are named by the user, and of these
nobody knows whether a process works on them, so they can be STOP and not STALL.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.ops.lag.evaluation import QUERY_PREFIX
from odradek.ops.lag.history import REPEAT_MS, Past, Position
from odradek.protocol.types import TopicPartition
from odradek.spark.pipelines.state import PipelineDirectory, pipelines_in
from odradek.spark.progress import offsets_of
from odradek.world.disk import Disk

_VERSION: Final = "v1"
_BATCHES: Final = 10
_CLIENT: Final = "spark"


class NotReadable(Exception):
    """A checkpoint cannot be read; the message says why."""


class Batch(NamedTuple):
    """The offsets that a batch reads up to, and when it was planned."""

    number: int
    at_ms: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its checkpoint. `owner` is the process that runs it, if one is known to."""

    name: str
    checkpoint: str
    owner: str = ""
    batch_duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Queries:
    """Which queries are looked at: those of the pipelines in a directory, and checkpoints by the
    names that the user gave them."""

    disk: Disk
    pipelines: str | None = None
    checkpoints: Mapping[str, str] = field(default_factory=dict)

    def positions(
        self,
    ) -> tuple[dict[str, dict[TopicPartition, Position]], dict[str, str]]:
        """Returns the positions of each query, and which queries cannot be read and why."""
        found: dict[str, dict[TopicPartition, Position]] = {}
        unreadable: dict[str, str] = {}
        for query in self._all():
            try:
                found[query.name] = positions_of(self.disk, query)
            except NotReadable as reason:
                unreadable[query.name] = str(reason)
        return found, unreadable

    def _all(self) -> Iterator[Query]:
        if self.pipelines is not None:
            for directory in pipelines_in(self.disk, self.pipelines):
                yield from _queries_of(directory)
        for name, checkpoint in self.checkpoints.items():
            yield Query(f"{QUERY_PREFIX}{name}", checkpoint)


def _queries_of(directory: PipelineDirectory) -> Iterable[Query]:
    state = directory.read()
    if state is None:
        return
    owner = f"process {state.pid}" if directory.is_running() else ""
    for name, query in state.queries.items():
        # A query whose checkpoint is elsewhere must be named: Spark does not tell where it is.
        if directory.has_checkpoint(name):
            yield Query(
                f"{QUERY_PREFIX}{directory.name}.{name}",
                f"{directory.checkpoint}/{name}",
                owner,
                round(query.batch_duration_s * 1000),
            )


def positions_of(disk: Disk, query: Query) -> dict[TopicPartition, Position]:
    """Returns where a query is. A query that has finished no batch yet is nowhere."""
    batches = _done_batches(disk, query.checkpoint)
    if not batches:
        return {}
    newest = batches[-1]
    duration_ms = query.batch_duration_ms or _duration_ms(disk, query.checkpoint, newest)
    # As long as a batch runs nothing is committed, and the query is not stuck.
    repeat_ms = max(REPEAT_MS, 2 * duration_ms)
    return {
        partition: Position(
            offset,
            query.owner,
            _CLIENT if query.owner else "",
            repeat_ms,
            tuple(
                Past(batch.offsets[partition], batch.at_ms)
                for batch in batches
                if partition in batch.offsets
            ),
        )
        for partition, offset in newest.offsets.items()
    }


def _done_batches(disk: Disk, checkpoint: str) -> list[Batch]:
    """Returns the newest batches that are done, the oldest first."""
    done = sorted(_numbers(disk, f"{checkpoint}/commits"))[-_BATCHES:]
    batches = []
    for number in done:
        try:
            text = disk.read(f"{checkpoint}/offsets/{number}").decode()
        except FileNotFoundError:
            continue  # Spark has deleted it meanwhile.
        except (OSError, UnicodeDecodeError) as error:
            raise NotReadable(f"{checkpoint}/offsets/{number}: {error}") from None
        batches.append(_batch(number, text, checkpoint))
    return batches


def _numbers(disk: Disk, directory: str) -> list[int]:
    try:
        names = disk.list_directory(directory)
    except FileNotFoundError:
        if disk.exists(directory.rpartition("/")[0] + "/metadata"):
            return []  # No batch is done yet.
        raise NotReadable(
            f"{directory.rpartition('/')[0]} is not the checkpoint of a query"
        ) from None
    except OSError as error:
        raise NotReadable(f"{directory}: {error.strerror}") from None
    return [int(name) for name in names if name.isdecimal()]


def _batch(number: int, text: str, checkpoint: str) -> Batch:
    version, *lines = text.splitlines()
    if version != _VERSION:
        raise NotReadable(
            f"{checkpoint}/offsets/{number} has version {version}; {_VERSION} can be read"
        )
    try:
        at_ms = int(json.loads(lines[0])["batchTimestampMs"])
    except (ValueError, LookupError, TypeError):
        raise NotReadable(f"{checkpoint}/offsets/{number} is not a batch of Spark") from None
    offsets: dict[TopicPartition, int] = {}
    for line in lines[1:]:
        for partition, offset in offsets_of(line).items():
            # A query may read a topic twice, and is where the slower source is.
            offsets[partition] = min(offset, offsets.get(partition, offset))
    return Batch(number, at_ms, offsets)


def _duration_ms(disk: Disk, checkpoint: str, batch: Batch) -> int:
    """Returns how long a batch took: until Spark noted that it was done."""
    done_ms = disk.modified_ms(f"{checkpoint}/commits/{batch.number}")
    return 0 if done_ms is None else max(0, done_ms - batch.at_ms)
