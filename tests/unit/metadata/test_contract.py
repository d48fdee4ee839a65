"""What every metadata store promises."""

import asyncio

import pytest

from odradek.metadata import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Metadata,
    MetadataStore,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationFailed,
    SessionExpired,
    Set,
    Watch,
)
from odradek.metadata.store import EVERYTHING, InvalidPath
from tests.unit.metadata.conftest import Run


async def value_of(store: MetadataStore, path: str) -> bytes | None:
    node = await store.read(path)
    return None if node is None else node.value


def test_a_node_is_made_read_set_and_removed(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        assert await store.multi(Create("/a", b"1")) == [0]
        node = await store.read("/a")
        assert node is not None
        assert (node.value, node.version, node.owner) == (b"1", 0, 0)
        assert await store.multi(Set("/a", b"2", 0)) == [1]
        assert await store.multi(Set("/a", b"3")) == [2]
        assert await value_of(store, "/a") == b"3"
        (absent, present) = await store.read_each(["/b", "/a"])
        assert absent is None
        assert present == await store.read("/a")
        assert await store.multi(Delete("/a", 2)) == [ANY_VERSION]
        assert await store.read("/a") is None

    run(scenario)


@pytest.mark.parametrize(
    ("operation", "error", "path"),
    [
        (Create("/a"), NodeExists, "/a"),
        (Create("/b/c"), NoNode, "/b"),
        (Set("/b", b""), NoNode, "/b"),
        (Set("/a", b"", 1), BadVersion, "/a"),
        (Delete("/b"), NoNode, "/b"),
        (Delete("/a/x", 7), BadVersion, "/a/x"),
        (Delete("/a"), NotEmpty, "/a"),
        (Delete("/"), InvalidPath, "/"),
        (Check("/b"), NoNode, "/b"),
        (Check("/a", 7), BadVersion, "/a"),
        (Create("/passing/child"), InvalidPath, "/passing/child"),
        (Create("b"), InvalidPath, "b"),
        (Create("/b/"), InvalidPath, "/b/"),
        (Create("//b"), InvalidPath, "//b"),
        (Create("/"), InvalidPath, "/"),
    ],
)
def test_a_refusal_names_the_node_and_nothing_happens(
    run: Run, operation: Operation, error: type[OperationFailed], path: str
) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        await store.multi(Create("/a"), Create("/a/x"), Create("/passing", b"", True))
        before = await store.read_tree("/")
        with pytest.raises(error) as caught:
            await store.multi(Create("/new"), Set("/a/x", b"lost"), operation)
        assert caught.value.path == path
        assert await store.read_tree("/") == before

    run(scenario)


def test_operations_of_a_multi_see_each_other(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        versions = await store.multi(
            Create("/a"),
            Create("/a/b", b"1"),
            Set("/a/b", b"2", 0),
            Check("/a/b", 1),
            Create("/a/c"),
            Delete("/a/c"),
            Delete("/a/b"),
            Delete("/a"),
            Create("/a", b"again"),
        )
        assert versions == [0, 0, 1, -1, 0, -1, -1, -1, 0]
        assert await value_of(store, "/a") == b"again"
        assert await store.children("/a") == []

    run(scenario)


def test_a_node_made_and_removed_in_one_multi_proves_that_it_was_missing(run: Run) -> None:
    """Whoever deletes a topic without settings relies on it."""

    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        await store.multi(Create("/a"), Create("/b"))
        proof = (Create("/a/x", b"1"), Delete("/a/x", 0), Delete("/b"))
        await store.multi(Create("/a/x", b"2"))
        with pytest.raises(NodeExists) as caught:
            await store.multi(*proof)
        assert caught.value.path == "/a/x"
        assert await value_of(store, "/a/x") == b"2"
        assert await value_of(store, "/b") == b""
        await store.multi(Delete("/a/x"))
        assert await store.multi(*proof) == [0, -1, -1]
        assert await store.read("/a/x") is None
        assert await store.children("/") == ["a"]

    run(scenario)


def test_of_two_that_expect_the_same_version_one_wins(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        one, two = metadata.connect(), metadata.connect()
        await one.multi(Create("/a"))
        outcomes = await asyncio.gather(
            one.multi(Set("/a", b"one", 0)),
            two.multi(Set("/a", b"two", 0)),
            return_exceptions=True,
        )
        won = [outcome == [1] for outcome in outcomes]
        assert sorted(won) == [False, True]
        assert isinstance(outcomes[won.index(False)], BadVersion)
        winner = (b"one", b"two")[won.index(True)]
        assert await value_of(two, "/a") == winner
        assert await value_of(one, "/a") == winner

    run(scenario)


def test_a_node_made_again_is_told_from_its_predecessor(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        await store.multi(Create("/a"))
        first = await store.read("/a")
        await store.multi(Delete("/a"))
        await store.multi(Create("/a"))
        second = await store.read("/a")
        assert first is not None
        assert second is not None
        assert second.version == first.version == 0
        assert second.created > first.created

    run(scenario)


def test_ephemeral_nodes_go_with_their_session(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        mortal, witness = metadata.connect(), metadata.connect()
        await mortal.multi(Create("/ids"), Create("/ids/1", b"x", True), Create("/stays"))
        await witness.multi(Create("/ids/2", b"y", True))
        node = await witness.read("/ids/1")
        assert node is not None
        assert node.owner == mortal.session_id != witness.session_id
        await mortal.close()
        assert await witness.children("/ids") == ["2"]
        assert await witness.read("/stays") is not None
        for attempt in (mortal.read("/ids"), mortal.multi(Check("/ids")), mortal.read_tree("/")):
            with pytest.raises(SessionExpired):
                await attempt
        # Closing twice is harmless, and a successor may take the path at once.
        await mortal.close()
        await witness.multi(Create("/ids/1", b"z", True))

    run(scenario)


def test_any_session_may_set_or_remove_an_ephemeral_node(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        owner, other = metadata.connect(), metadata.connect()
        await owner.multi(Create("/a", b"", True), Create("/b", b"", True))
        assert await other.multi(Set("/a", b"new", 0), Delete("/b")) == [1, -1]
        node = await owner.read("/a")
        assert node is not None
        assert node.owner == owner.session_id
        await owner.close()
        assert await other.read("/a") is None

    run(scenario)


def test_a_tree_is_read_parents_first(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        paths = ["/t", "/t/b", "/t/a", "/t/a/2", "/t/a/1", "/tt"]
        await store.multi(*map(Create, paths))
        tree = await store.read_tree("/t")
        assert sorted(tree) == sorted(set(paths) - {"/tt"})
        order = list(tree)
        for path in order[1:]:
            assert path.rpartition("/")[0] in order[: order.index(path)]
        assert await store.read_tree("/missing") == {}
        assert set(await store.read_tree("/")) == {"/", *paths}
        assert await store.children("/t/a") == ["1", "2"]
        assert await store.children("/missing") == []

    run(scenario)


async def collect(watch: Watch, *expected: str) -> None:
    """Waits until the watch has told of all of these, or of everything."""
    told: set[str] = set()
    while not told & {EVERYTHING} and not told >= set(expected):
        told |= set(await watch.next())


def test_a_watch_tells_of_every_changed_node(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store, other = metadata.connect(), metadata.connect()
        await store.multi(Create("/before"))
        await other.read("/before")
        watch = store.watch()
        await other.multi(Create("/a"), Create("/a/b"), Check("/before"))
        await store.multi(Set("/a/b", b"1"))
        await store.multi(Set("/a/b", b"2"))
        await collect(watch, "/a", "/a/b")
        await other.multi(Delete("/a/b"))
        await collect(watch, "/a/b")
        assert await store.read("/a/b") is None

    run(scenario)


def test_a_refused_change_is_told_to_nobody(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        await store.read("/")
        watch = store.watch()
        with pytest.raises(NoNode):
            await store.multi(Create("/c"), Delete("/missing"))
        await store.multi(Create("/marker"))
        told: set[str] = set()
        while "/marker" not in told:
            told |= set(await watch.next())
        assert "/c" not in told
        assert watch.pending() == []

    run(scenario)


def test_a_watch_wakes_its_waiter(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store, mortal = metadata.connect(), metadata.connect()
        await store.read("/")
        watch = store.watch()
        waiting = asyncio.ensure_future(collect(watch, "/a"))
        await mortal.multi(Create("/a", b"", True))
        await waiting
        waiting = asyncio.ensure_future(collect(watch, "/a"))
        await mortal.close()
        await waiting
        assert await store.read("/a") is None
        watch.close()
        await store.multi(Create("/b"))
        assert watch.pending() == []

    run(scenario)


def test_the_present_session_is_known(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        session_id = await store.next_session()
        assert session_id == store.session_id != 0
        assert not store.may_be_outdated()
        waiting = asyncio.ensure_future(store.next_session(session_id))
        await store.read("/")
        assert not waiting.done()
        await store.close()
        with pytest.raises(SessionExpired):
            await waiting
        assert store.may_be_outdated()

    run(scenario)


def test_a_watch_ends_with_its_session(run: Run) -> None:
    async def scenario(metadata: Metadata) -> None:
        store = metadata.connect()
        watch = store.watch()
        waiting = asyncio.ensure_future(watch.next())
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(SessionExpired):
            await waiting

    run(scenario)
