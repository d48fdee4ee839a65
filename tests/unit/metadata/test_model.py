"""Random operations on every store against a dictionary that does the same the simple way."""

import asyncio
import tempfile
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.metadata import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataError,
    MetadataStore,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Watch,
)
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.store import InvalidPath
from odradek.world import World
from tests.unit.metadata.conftest import InlineWorkers

paths = st.sampled_from(["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a"])
versions = st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1, 2])
values = st.binary(max_size=3)
operations = st.one_of(
    st.builds(Create, paths, values, st.booleans()),
    st.builds(Set, paths, values, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


class Entry(NamedTuple):
    value: bytes
    version: int
    owner: int


class Model:
    def __init__(self) -> None:
        self.nodes: dict[str, Entry] = {"/": Entry(b"", 0, 0)}

    def multi(self, session: int, todo: list[Operation]) -> type[MetadataError] | list[int]:
        """The versions, or the kind of error."""
        kept = dict(self.nodes)
        results = []
        for operation in todo:
            result = self._one(session, operation)
            if isinstance(result, type):
                self.nodes = kept
                return result
            results.append(result)
        return results

    def _one(self, session: int, operation: Operation) -> type[MetadataError] | int:
        path = operation.path
        entry = self.nodes.get(path)
        if isinstance(operation, Create):
            return self._create(session, operation)
        if entry is None:
            return NoNode
        if operation.version not in (ANY_VERSION, entry.version):
            return BadVersion
        if isinstance(operation, Set):
            self.nodes[path] = Entry(operation.value, entry.version + 1, entry.owner)
            return entry.version + 1
        if isinstance(operation, Delete):
            if any(other.startswith(path + "/") for other in self.nodes):
                return NotEmpty
            del self.nodes[path]
        return ANY_VERSION

    def _create(self, session: int, create: Create) -> type[MetadataError] | int:
        if create.path in self.nodes:
            return NodeExists
        parent = self.nodes.get(create.path.rpartition("/")[0] or "/")
        if parent is None:
            return NoNode
        if parent.owner:
            return InvalidPath
        self.nodes[create.path] = Entry(create.value, 0, session if create.ephemeral else 0)
        return 0

    def end(self, session: int) -> None:
        for path, entry in list(self.nodes.items()):
            if entry.owner == session:
                del self.nodes[path]


class StoreMachine(RuleBasedStateMachine):
    durable = False

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.model = Model()
        self.seen = dict(self.model.nodes)

    def open(self) -> MemoryMetadata | SqliteMetadata:
        if not self.durable:
            return MemoryMetadata()
        path = f"{self.directory.name}/metadata.sqlite"
        return SqliteMetadata(path, World(workers=InlineWorkers()))

    def teardown(self) -> None:
        self.runner.run(self.metadata.close())
        self.runner.close()
        self.directory.cleanup()

    @initialize()
    def start(self) -> None:
        self.runner.run(self.connect())

    async def connect(self) -> None:
        self.metadata = self.open()
        self.witness: MetadataStore = self.metadata.connect()
        self.store: MetadataStore = self.metadata.connect()
        self.watch: Watch = self.witness.watch()

    @rule(todo=st.lists(operations, min_size=1, max_size=5))
    def multi(self, todo: list[Operation]) -> None:
        expected = self.model.multi(self.store.session_id, todo)
        assert self.runner.run(self.attempt(todo)) == expected

    async def attempt(self, todo: list[Operation]) -> type[MetadataError] | list[int]:
        try:
            return await self.store.multi(*todo)
        except MetadataError as error:
            return type(error)

    @rule(together=st.lists(st.lists(operations, min_size=1, max_size=3), max_size=4))
    def several_at_once(self, together: list[list[Operation]]) -> None:
        async def attempts() -> list[type[MetadataError] | list[int]]:
            return await asyncio.gather(*map(self.attempt, together))

        expected = [self.model.multi(self.store.session_id, todo) for todo in together]
        assert self.runner.run(attempts()) == expected

    @rule()
    def new_session(self) -> None:
        self.model.end(self.store.session_id)
        self.runner.run(self.store.close())
        self.store = self.metadata.connect()

    @invariant()
    def same_tree(self) -> None:
        tree = self.runner.run(self.witness.read_tree("/"))
        found = {path: Entry(node.value, node.version, node.owner) for path, node in tree.items()}
        assert found == self.model.nodes

    @invariant()
    def every_difference_was_notified(self) -> None:
        differing = {
            path
            for path in {*self.seen, *self.model.nodes}
            if self.seen.get(path) != self.model.nodes.get(path)
        }
        assert differing <= set(self.watch.pending())
        self.seen = dict(self.model.nodes)


class DurableMachine(StoreMachine):
    durable = True

    @rule()
    def reopen(self) -> None:
        """Everything but the ephemeral nodes is there again, and numbers go on rising."""
        highest = self.metadata.tree.transaction
        self.runner.run(self.metadata.close())
        self.model.end(self.store.session_id)
        self.seen = dict(self.model.nodes)
        self.runner.run(self.connect())
        assert self.metadata.tree.transaction > highest


TestMemory = StoreMachine.TestCase
TestMemory.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestSqlite = DurableMachine.TestCase
TestSqlite.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
