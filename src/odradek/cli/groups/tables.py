"""Tables about groups, with the same columns as Kafka's tools.

Kafka prints the line break before each line, so a table starts with an empty line. Scripts that
read these tables skip it, so it is kept.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.client.admin.group_types import GroupDescription, GroupListing, GroupMember
from odradek.protocol.types import TopicPartition

MISSING = "-"
_MIN_WIDTH = 15


class OffsetRow(NamedTuple):
    """A group's position in one partition; None means not known."""

    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    offset: int | None
    log_end_offset: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        if self.offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.offset


def shown(value: object) -> str:
    return MISSING if value is None or value == "" else str(value)


def _aligned(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterable[str]:
    """Pads each cell to the width of its column; a width of 0 leaves the cell unchanged."""
    for row in rows:
        yield " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _widest(cells: Iterable[str], least: int = _MIN_WIDTH) -> int:
    return max(least, *map(len, cells), 0)


def _table(rows: list[list[str]], widths: Sequence[int]) -> str:
    return "\n" + "\n".join(_aligned(rows, widths))


def listing_table(listings: list[GroupListing], *, types: bool, states: bool) -> str:
    rows = [["GROUP", "TYPE", "STATE"]]
    rows += [
        [listing.group_id, listing.type or "Unknown", listing.state or "Unknown"]
        for listing in listings
    ]
    widths = [_widest(row[0] for row in rows[1:]) + 10, 20, 20]
    columns = [0, *([1] if types else []), *([2] if states else [])]
    return "\n".join(
        _aligned(
            ([row[column] for column in columns] for row in rows),
            [widths[column] for column in columns],
        )
    )


def every_group_table(listings: list[GroupListing]) -> str:
    rows = [["GROUP", "TYPE", "PROTOCOL"]]
    rows += [
        [listing.group_id, listing.type or "Unknown", listing.protocol_type] for listing in listings
    ]
    header, *lines = _aligned(rows, [_widest((row[0] for row in rows), 20), 20, 20])
    # Kafka ends every line except the first with a space.
    return "\n".join([header, *(line + " " for line in lines)])


def offsets_table(rows: list[OffsetRow], *, verbose: bool) -> str:
    cells = [
        ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
         "CONSUMER-ID", "HOST", "CLIENT-ID"]
    ]  # fmt: skip
    for row in rows:
        member = row.member
        cells.append(
            [
                row.group,
                row.topic,
                str(row.partition),
                shown(row.leader_epoch),
                shown(row.offset),
                shown(row.log_end_offset),
                shown(row.lag),
                MISSING if member is None else member.member_id,
                MISSING if member is None else member.host,
                MISSING if member is None else member.client_id,
            ]
        )
    columns = list(zip(*cells[1:], strict=True)) or [()] * len(cells[0])
    widths = [
        _widest(columns[0]), _widest(columns[1]), 10, 15, 15, 15, 15,
        _widest(columns[7]), _widest(columns[8]), 0,
    ]  # fmt: skip
    if not verbose:
        del widths[3]
        for line in cells:
            del line[3]
    return _table(cells, widths)


def members_table(group: GroupDescription, *, verbose: bool) -> str:
    headers = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        [
            group.group_id,
            member.member_id,
            member.group_instance_id or "",
            member.host,
            member.client_id,
            str(len(member.assignment)),
        ]
        for member in group.members
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(headers)
    widths = [_widest(columns[0]), _widest(columns[1]), _widest(columns[2], 17)]
    widths += [_widest(columns[3]), _widest(columns[4]), 15]
    if not any(columns[2]):
        for row in [headers, *rows]:
            del row[2]
        del widths[2]
    if verbose:
        _add_epochs(group, headers, rows, widths)
        return _table([headers, *rows], widths)
    return "\n" + "\n".join(line + " " for line in _aligned([headers, *rows], widths))


def _add_epochs(
    group: GroupDescription, headers: list[str], rows: list[list[str]], widths: list[int]
) -> None:
    headers += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    # The column is shown only while some members use the classic protocol.
    with_upgrades = any(member.is_upgraded is False for member in group.members)
    for row, member in zip(rows, group.members, strict=True):
        row += [
            shown(member.member_epoch),
            assignment_text(member.assignment),
            shown(group.target_assignment_epoch),
            assignment_text(member.target_assignment or ()),
        ]
        if with_upgrades:
            row.append(shown(member.is_upgraded).lower())
    current = _widest((row[len(headers) - 3] for row in rows), 20)
    target = _widest((row[len(headers) - 1] for row in rows), 20)
    widths += [15, current, 15, target]
    if with_upgrades:
        headers.append("UPGRADED")
        widths.append(15)


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """Formats an assignment as `orders:0,1;payments:0`, or a dash if it is empty."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return (
        ";".join(f"{topic}:{','.join(map(str, many))}" for topic, many in topics.items()) or MISSING
    )


def state_table(group: GroupDescription, *, verbose: bool) -> str:
    broker = group.coordinator
    coordinator = f"{broker.host}:{broker.port}  ({broker.id})"
    rows = [
        ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH",
         "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"],
        [
            group.group_id,
            coordinator,
            shown(group.assignor),
            group.state,
            shown(group.group_epoch),
            shown(group.target_assignment_epoch),
            str(len(group.members)),
        ],
    ]  # fmt: skip
    widths = [_widest([group.group_id]), _widest([coordinator], 25), 20, 20, 15, 25, 0]
    if not verbose:
        for line in rows:
            del line[4:6]
        del widths[4:6]
    return _table(rows, widths)


def reset_table(rows: list[tuple[str, TopicPartition, int]]) -> str:
    cells = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    cells += [
        [group, partition.topic, str(partition.partition), str(to)] for group, partition, to in rows
    ]
    columns = list(zip(*cells[1:], strict=True)) or [(), ()]
    return _table(cells, [_widest(columns[0]), _widest(columns[1]), 10, 0])


def deleted_offsets_table(rows: list[tuple[TopicPartition, str]]) -> str:
    cells = [["TOPIC", "PARTITION", "STATUS"]]
    cells += [[partition.topic, str(partition.partition), status] for partition, status in rows]
    return _table(cells, [_widest(row[0] for row in cells), 10, 15])
