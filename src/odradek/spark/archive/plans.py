"""What to do next: which offsets to archive, which files to merge, which to send. All pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import DataFile, Gap, Offsets
from odradek.spark.offsets import Range, limit, made_anew


class DataLoss(Exception):
    """Records that were to be archived are gone from the topic."""


class Chunk(NamedTuple):
    """The work of one entry. `offsets` is where partitions go on afterwards, if that is new."""

    ranges: list[Range]
    gaps: list[Gap]
    offsets: Offsets

    @property
    def size(self) -> int:
        """Offsets, which is records where none are missing."""
        return sum(one.end - one.start for one in self.ranges)


def refuse_other_topics(known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises if a topic is not the one that is archived, whatever its offsets are."""
    for topic in sorted(made_anew(known, now)):
        raise DataLoss(
            f"{topic} was deleted and made anew since it was archived: it is another topic of the"
            " same name; archive it into another directory"
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
    """What comes after `done`, up to `ends` and to `most` offsets; empty when all is done.

    `earliest` is where topics begin by now. What is missing before it is an error, or a gap.
    """
    starts: Offsets = {}
    gaps = []
    for place, end in sorted(ends.items()):
        start = done.get(place, earliest[place])
        if start < earliest[place]:
            gaps.append(Gap(*place, start, earliest[place]))
            start = earliest[place]
        elif start > end:
            raise DataLoss(
                f"{place.topic} [{place.partition}] ends at {end}, but was archived up to {start}:"
                " it is another topic of the same name; archive it into another directory"
            )
        starts[place] = start
    if gaps and not allow_data_loss:
        one = gaps[0]
        raise DataLoss(
            f"offsets {one.first_offset} to {one.end_offset - 1} of {one.topic} [{one.partition}]"
            " were deleted before they were archived: to go on without them, and have that noted,"
            " use --allow-data-loss"
        )
    reached = limit(starts, ends, most)
    ranges = [
        Range(*place, starts[place], end, (topic_ids or {}).get(place.topic, ""))
        for place, end in sorted(reached.items())
        if starts[place] < end
    ]
    # Empty partitions are noted too: a copy of the topic has them.
    news = {place: end for place, end in reached.items() if done.get(place) != end}
    return Chunk(ranges, gaps, news)


class Merge(NamedTuple):
    """Files of one partition and one hour, next to each other, that become one."""

    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.files)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)


def merges(files: Iterable[DataFile], target_bytes: int) -> list[Merge]:
    """Small neighbours to be merged into files of up to `target_bytes`.

    A file is merged only if the others with it are at least half as large together: each merge
    makes the file that a record is in half as large again or more, so no record is written more
    often than log1.5(target / smallest) times, however often small files are added.
    """
    hours: dict[tuple[str, int, str, str], list[DataFile]] = defaultdict(list)
    for one in files:
        hours[one.topic, one.partition, one.date, one.hour].append(one)
    found = []
    for _, hour in sorted(hours.items()):
        hour.sort(key=lambda one: one.first_offset)
        run: list[DataFile] = []
        for file in hour:
            if run and sum(each.size_bytes for each in run) + file.size_bytes > target_bytes:
                found += _worthwhile(run)
                run = []
            run.append(file)
        found += _worthwhile(run)
    return found


def _worthwhile(run: list[DataFile]) -> list[Merge]:
    """The run, or what is before and after a file that is too large for the others."""
    if len(run) < 2:
        return []
    largest = max(range(len(run)), key=lambda index: run[index].size_bytes)
    if run[largest].size_bytes * 3 <= 2 * sum(one.size_bytes for one in run):
        return [Merge(tuple(run))]
    return _worthwhile(run[:largest]) + _worthwhile(run[largest + 1 :])


def batches_of(found: list[Merge], max_bytes: int) -> list[list[Merge]]:
    """Merges that are done in one go: at least one, and no more than so many bytes."""
    batches: list[list[Merge]] = []
    size_bytes = max_bytes
    for one in found:
        if size_bytes + one.size_bytes > max_bytes:
            batches.append([])
            size_bytes = 0
        batches[-1].append(one)
        size_bytes += one.size_bytes
    return batches


class Interval(NamedTuple):
    """Archived offsets of one partition, from `start` to before `end`: one transaction."""

    partition: int
    start: int
    end: int


def rounds(
    files: Iterable[DataFile], position: Mapping[int, int], *, rows: int, partitions: int
) -> list[list[Interval]]:
    """The jobs of a restore: in each at most one interval a partition, of about `rows` records.

    `position` says where partitions go on that are restored in part. A partition's intervals come
    in order, each in a later round than the one before.
    """
    of: dict[int, list[DataFile]] = defaultdict(list)
    for one in files:
        if one.last_offset >= position.get(one.partition, 0):
            of[one.partition].append(one)
    queues = {
        partition: _intervals(partition, found, position.get(partition, 0), rows)
        for partition, found in sorted(of.items())
    }
    jobs: list[list[Interval]] = []
    for index in range(max(map(len, queues.values()), default=0)):
        turn = [queue[index] for queue in queues.values() if index < len(queue)]
        jobs += [turn[at : at + partitions] for at in range(0, len(turn), partitions)]
    return jobs


def _intervals(partition: int, files: list[DataFile], position: int, rows: int) -> list[Interval]:
    first = max(position, min(one.first_offset for one in files))
    end = 1 + max(one.last_offset for one in files)
    count = max(1, -(-sum(one.rows for one in files) // rows))
    count = min(count, end - first)
    cuts = [first + (end - first) * index // count for index in range(count + 1)]
    return [Interval(partition, cuts[index], cuts[index + 1]) for index in range(count)]


def files_with(files: Iterable[DataFile], interval: Interval) -> list[DataFile]:
    """Files that may hold a record of the interval."""
    return [
        one
        for one in files
        if one.partition == interval.partition
        and one.first_offset < interval.end
        and one.last_offset >= interval.start
    ]
