"""Pure functions that plan the next step: which offsets to archive, which files to merge, which to
send."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import DataFile, Gap, Offsets
from odradek.spark.offsets import Range, limit, recreated_topics


class DataLoss(Exception):
    """Records that were to be archived are not in the topic any more."""


class Chunk(NamedTuple):
    """The work of one entry. `offsets` holds the next offset of each partition that the entry
    changes."""

    ranges: list[Range]
    gaps: list[Gap]
    offsets: Offsets

    @property
    def size(self) -> int:
        """The number of offsets, which is the number of records if none are missing."""
        return sum(offset_range.end - offset_range.start for offset_range in self.ranges)


def refuse_other_topics(archived_ids: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises if a topic of the same name has another id than the archived one."""
    for topic in sorted(recreated_topics(archived_ids, now)):
        raise DataLoss(
            f"{topic} was deleted and created again since it was archived: it is another topic with"
            " the same name; archive it into another directory"
        )


def next_chunk(
    done: Mapping[TopicPartition, int],
    earliest: Offsets,
    ends: Offsets,
    most: int,
    *,
    allow_data_loss: bool = False,
    topic_ids: Mapping[str, str] | None = None,
) -> Chunk:
    """Plans the next offsets after `done`, up to `ends` and at most `most`; empty when all are
    done.

    `earliest` holds the current log start offsets. Offsets that were deleted before they were
    archived are an error or, with `allow_data_loss`, a gap.
    """
    starts: Offsets = {}
    gaps = []
    for partition, end in sorted(ends.items()):
        start = done.get(partition, earliest[partition])
        if start < earliest[partition]:
            gaps.append(Gap(*partition, start, earliest[partition]))
            start = earliest[partition]
        elif start > end:
            raise DataLoss(
                f"{partition.topic} [{partition.partition}] ends at {end}, but was archived up to"
                f" {start}:"
                " it is another topic of the same name; archive it into another directory"
            )
        starts[partition] = start
    if gaps and not allow_data_loss:
        first_gap = gaps[0]
        raise DataLoss(
            f"offsets {first_gap.first_offset} to {first_gap.end_offset - 1} of"
            f" {first_gap.topic} [{first_gap.partition}]"
            " were deleted before they were archived: to go on without them, and have that noted,"
            " use --allow-data-loss"
        )
    reached = limit(starts, ends, most)
    ranges = [
        Range(
            *partition,
            starts[partition],
            end,
            (topic_ids or {}).get(partition.topic, ""),
        )
        for partition, end in sorted(reached.items())
        if starts[partition] < end
    ]
    # Empty partitions are recorded too, so that a restored topic has them.
    changed = {partition: end for partition, end in reached.items() if done.get(partition) != end}
    return Chunk(ranges, gaps, changed)


class Merge(NamedTuple):
    """Neighbouring files of one partition and one hour that become one file."""

    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def merges(files: Iterable[DataFile], target_bytes: int) -> list[Merge]:
    """Chooses small neighbouring files to be merged into files of up to `target_bytes`.

    A file is merged only if the others in its merge together have at least half its size. So each
    merge increases the size of the file that a record is in by at least half, and no record is
    written more often than log1.5(target / smallest) times, however often small files are added.
    """
    hours: dict[tuple[str, int, str, str], list[DataFile]] = defaultdict(list)
    for file in files:
        hours[file.topic, file.partition, file.date, file.hour].append(file)
    worthwhile = []
    for _, hour in sorted(hours.items()):
        hour.sort(key=lambda file: file.first_offset)
        run: list[DataFile] = []
        for file in hour:
            if run and sum(earlier.size_bytes for earlier in run) + file.size_bytes > target_bytes:
                worthwhile += _worthwhile(run)
                run = []
            run.append(file)
        worthwhile += _worthwhile(run)
    return worthwhile


def _worthwhile(run: list[DataFile]) -> list[Merge]:
    """Returns the run of files, or its parts before and after a file that is too large for the
    others."""
    if len(run) < 2:
        return []
    largest = max(range(len(run)), key=lambda index: run[index].size_bytes)
    if run[largest].size_bytes * 3 <= 2 * sum(file.size_bytes for file in run):
        return [Merge(tuple(run))]
    return _worthwhile(run[:largest]) + _worthwhile(run[largest + 1 :])


def batches_of(plan: list[Merge], max_bytes: int) -> list[list[Merge]]:
    """Yields lists of merges for one Spark job each: at least one merge, and at most
    `max_bytes`."""
    batches: list[list[Merge]] = []
    size_bytes = max_bytes
    for merge in plan:
        if size_bytes + merge.size_bytes > max_bytes:
            batches.append([])
            size_bytes = 0
        batches[-1].append(merge)
        size_bytes += merge.size_bytes
    return batches


class Interval(NamedTuple):
    """The archived offsets [start, end) of one partition, restored in one transaction."""

    partition: int
    start: int
    end: int


def rounds(
    files: Iterable[DataFile], position: Mapping[int, int], *, rows: int, partitions: int
) -> list[list[Interval]]:
    """Yields the jobs of a restore: each has at most one interval for each partition, of about
    `rows` records.

    `position` holds the next offset of partitions that are partly restored. A partition's intervals
    come in order, each in a later job than the previous one.
    """
    of: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.last_offset >= position.get(file.partition, 0):
            of[file.partition].append(file)
    queues = {
        partition: _intervals(partition, archived_files, position.get(partition, 0), rows)
        for partition, archived_files in sorted(of.items())
    }
    jobs: list[list[Interval]] = []
    for index in range(max(map(len, queues.values()), default=0)):
        turn = [queue[index] for queue in queues.values() if index < len(queue)]
        jobs += [turn[at : at + partitions] for at in range(0, len(turn), partitions)]
    return jobs


def _intervals(partition: int, files: list[DataFile], position: int, rows: int) -> list[Interval]:
    first = max(position, min(file.first_offset for file in files))
    end = 1 + max(file.last_offset for file in files)
    count = max(1, -(-sum(file.rows for file in files) // rows))
    count = min(count, end - first)
    cuts = [first + (end - first) * index // count for index in range(count + 1)]
    return [Interval(partition, cuts[index], cuts[index + 1]) for index in range(count)]


def files_with(files: Iterable[DataFile], interval: Interval) -> list[DataFile]:
    """Returns the files that may hold records of the interval."""
    return [
        file
        for file in files
        if file.partition == interval.partition
        and file.first_offset < interval.end
        and file.last_offset >= interval.start
    ]
