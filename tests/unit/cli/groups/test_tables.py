"""Tables of groups and transactions: Kafka's columns, whatever stands in them."""

from odradek.cli.groups.tables import (
    OffsetRow,
    assignment_text,
    deleted_offsets_table,
    every_group_table,
    listing_table,
    members_table,
    offsets_table,
    reset_table,
    state_table,
)
from odradek.cli.transactions.transaction_actions import tabbed_table
from odradek.client.admin.group_types import GroupDescription, GroupListing, GroupMember
from odradek.client.cluster_view import Broker
from odradek.protocol.types import BrokerId, TopicPartition

BROKER = Broker(BrokerId(1), "127.0.0.1", 9092)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MEMBER = GroupMember("me-1", None, "me", "/127.0.0.1", (T0, T1))
GROUP = GroupDescription("g", "Classic", "consumer", "Stable", "range", BROKER, (MEMBER,))


def test_groups_with_types_and_states() -> None:
    listings = [GroupListing("g", "consumer", "Stable", "Classic", BROKER)]
    assert listing_table(listings, types=True, states=True).splitlines() == [
        "GROUP".ljust(26) + "TYPE".ljust(21) + "STATE".ljust(20),
        "g".ljust(26) + "Classic".ljust(21) + "Stable".ljust(20),
    ]
    assert listing_table([], types=False, states=True) == "GROUP".ljust(26) + "STATE".ljust(20)
    assert every_group_table(listings).splitlines()[1] == (
        "g".ljust(21) + "Classic".ljust(21) + "consumer".ljust(20) + " "
    )


def test_positions_and_lag() -> None:
    rows = [
        OffsetRow("g", "t", 0, 3, 7, 10, MEMBER),
        OffsetRow("g", "t", 1, None, None, 10, MEMBER),
        OffsetRow("g", "gone", 0, None, 4, None, None),
    ]
    assert [row.lag for row in rows] == [3, None, None]
    assert [line.split() for line in offsets_table(rows, verbose=False).splitlines()] == [
        [],
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
         "CONSUMER-ID", "HOST", "CLIENT-ID"],
        ["g", "t", "0", "7", "10", "3", "me-1", "/127.0.0.1", "me"],
        ["g", "t", "1", "-", "10", "-", "me-1", "/127.0.0.1", "me"],
        ["g", "gone", "0", "4", "-", "-", "-", "-", "-"],
    ]  # fmt: skip
    verbose = offsets_table(rows, verbose=True).splitlines()
    assert verbose[1].split()[3:5] == ["LEADER-EPOCH", "CURRENT-OFFSET"]
    assert verbose[2].split()[3:5] == ["3", "7"]


def test_columns_grow_with_what_they_hold() -> None:
    long = "a-group-with-quite-a-long-name"
    rows = [OffsetRow(long, "t", 0, None, 1, 1, None)]
    header, line = offsets_table(rows, verbose=False).splitlines()[1:]
    assert header.startswith("GROUP".ljust(len(long)) + " TOPIC")
    assert line.index(" t ") == header.index(" TOPIC")


def test_members() -> None:
    lines = members_table(GROUP, verbose=False).splitlines()
    assert lines[1].split() == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    assert lines[2].split() == ["g", "me-1", "/127.0.0.1", "me", "2"]
    static = GroupMember("m", "instance", "me", "/h", (T0, U0), (T0,), 4)
    group = GroupDescription("g", "Consumer", "consumer", "Stable", "uniform", BROKER,
                             (MEMBER, static), 5, 4)  # fmt: skip
    lines = members_table(group, verbose=True).splitlines()
    assert lines[1].split()[2] == "GROUP-INSTANCE-ID"
    assert lines[3].split() == [
        "g", "m", "instance", "/h", "me", "2", "4", "t:0;u:0", "4", "t:0",
    ]  # fmt: skip


def test_upgraded_members_are_told_while_some_are_not() -> None:
    def with_members(*upgraded: bool) -> str:
        members = tuple(
            GroupMember(f"m{number}", None, "c", "/h", (), (), 1, one)
            for number, one in enumerate(upgraded)
        )
        group = GroupDescription("g", "Consumer", "consumer", "Stable", "range", BROKER, members)
        return members_table(group, verbose=True)

    assert "UPGRADED" not in with_members(True, True)
    mixed = with_members(True, False).splitlines()
    assert [line.split()[-1] for line in mixed[1:]] == ["UPGRADED", "true", "false"]


def test_state() -> None:
    header, line = state_table(GROUP, verbose=False).splitlines()[1:]
    assert header.split("  ")[0] == "GROUP"
    assert line.split() == ["g", "127.0.0.1:9092", "(1)", "range", "Stable", "1"]
    line = state_table(GROUP, verbose=True).splitlines()[2]
    assert line.split()[5:] == ["-", "-", "1"]


def test_new_and_deleted_positions() -> None:
    table = reset_table([("g", T0, 12)]).splitlines()
    assert table[2] == "g".ljust(16) + "t".ljust(16) + "0".ljust(11) + "12"
    assert reset_table([]).splitlines()[1].split()[0] == "GROUP"
    table = deleted_offsets_table([(T0, "Successful")]).splitlines()
    assert table[2] == "t".ljust(16) + "0".ljust(11) + "Successful".ljust(15)


def test_assignments_are_sorted() -> None:
    assert assignment_text([U0, T1, T0]) == "t:0,1;u:0"
    assert assignment_text([]) == "-"


def test_cells_of_transactions_end_with_tabs() -> None:
    assert tabbed_table(["A", "Bcd"], [["12", "3"]]) == "A \tBcd\t\n12\t3  \t"
    assert tabbed_table(["A", "Bcd"], []) == "A\tBcd\t"
