"""The one way in which a broker changes nodes of the metadata store: compare-and-set.

Many brokers, and many requests on one broker, change the same nodes. A change that computes a new
value from an old one must not overwrite what another one wrote in between. So every change

1. reads the node with its version (from the store, or from an image that holds the version),
2. computes the new value,
3. writes it in one multi that checks that version, and also the controller epoch if the change is
   one that the controller could make,
4. begins again at 1 if the node has another version. After `OutcomeUnknown` it reads back first:
   the change may have been written, or may still be, and then the node has another version too.

The number of tries is bounded: `Contended` says that other changes came first every time.

- `change_node` does all four steps for a single node: settings, ACLs, credentials, blocks
  of producer ids.
- `write` does steps 3 and the reading back of step 4 for changes of several nodes that are decided
  from the image; the caller decides again while the outcome is not `WRITTEN`, and counts its tries
  with `Tries`.
- `attempt` is step 3 alone, for callers that handle an error in their own way (ISRs,
  registrations, the election of the controller).

Nothing outside `odradek.metadata` calls `MetadataStore.multi` or `MetadataCache.write`; a test
checks it. `attempt` refuses an operation that overwrites blindly.

A node whose value becomes empty is kept. If it were deleted and created again, its version would
begin at 0 again, and a change that was computed from the earlier node could be accepted.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final

from odradek.invariants import InvariantViolation
from odradek.metadata.cache import MetadataCache
from odradek.metadata.paths import CONTROLLER_EPOCH
from odradek.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    MetadataError,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OutcomeUnknown,
    Set,
)
from odradek.world.timeslice import Timeslice

# Each lost race means that another change was written.
MAX_LOST_RACES: Final = 100
# Each unknown outcome means that the connection to the store was lost.
MAX_UNKNOWN_OUTCOMES: Final = 5
# The check of so many operations takes about half a millisecond.
_MAX_CHECKED_AT_ONCE: Final = 1000

Change = Callable[[bytes | None], bytes | None]
"""Computes a node's new value from its present one, which is None if the node is missing. If it
returns the same value, or None, nothing is changed. It may raise, and may be called again."""


class Contended(MetadataError):
    """Other changes of the same nodes came first, every time."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: others changed it first, {MAX_LOST_RACES} times in a row; nothing was changed"
        )


class Fenced(Exception):
    """There is another controller: nothing was changed, and this one must resign."""


class Outcome(Enum):
    """What became of a change of several nodes."""

    WRITTEN = auto()
    # Another change came first. Nothing was changed; the image shows what the nodes hold now.
    LATE = auto()
    # It may have been written, or may still be. The image shows what the nodes hold now.
    UNKNOWN = auto()


class Tries:
    """Counts the tries of one change, and raises when there were too many."""

    __slots__ = ("_lost_races", "_unknown", "_what")

    def __init__(self, what: str) -> None:
        """`what` names what is changed, for the error."""
        self._what = what
        self._lost_races = 0
        self._unknown = 0

    def lost_race(self) -> None:
        self._lost_races += 1
        if self._lost_races >= MAX_LOST_RACES:
            raise Contended(self._what)

    def unknown_outcome(self) -> None:
        self._unknown += 1
        if self._unknown >= MAX_UNKNOWN_OUTCOMES:
            raise OutcomeUnknown

    def count(self, outcome: Outcome) -> None:
        """Counts what `write` returned."""
        if outcome is Outcome.LATE:
            self.lost_race()
        elif outcome is Outcome.UNKNOWN:
            self.unknown_outcome()


async def attempt(cache: MetadataCache, *operations: Operation) -> list[int]:
    """Writes one multi, whose effect is in the image when this returns. See `MetadataCache.write`
    for what it raises; the caller handles `BadVersion`, `NodeExists`, `NoNode` and
    `OutcomeUnknown`."""
    blind = _blind(operations)
    if blind is not None:
        raise InvariantViolation("metadata store", f"{blind} overwrites whatever is there")
    if len(operations) > _MAX_CHECKED_AT_ONCE:
        await Timeslice.of_running_loop().pause()
    return await cache.write(*operations)


async def write(
    cache: MetadataCache,
    *operations: Operation,
    fence: int | None = None,
    under_controller: bool = False,
) -> Outcome:
    """Writes one multi of a change that was decided from the image.

    `fence` is the version of the controller epoch's node in which a controller was elected: raises
    `Fenced` if the node has another version. With `under_controller` another broker makes a change
    that the controller could make too: then the epoch in the image is checked."""
    epoch = cache.image.controller_epoch_version if fence is None else fence
    checks: list[Operation] = []
    if (under_controller or fence is not None) and epoch >= 0:
        checks.append(Check(CONTROLLER_EPOCH, epoch))
    elif fence is not None:
        raise InvariantViolation("controller", "it changes the cluster without a controller epoch")
    outcome = Outcome.LATE
    try:
        await attempt(cache, *checks, *operations)
        return Outcome.WRITTEN
    except OutcomeUnknown:
        outcome = Outcome.UNKNOWN
    except (BadVersion, NodeExists, NoNode, NotEmpty) as error:
        if fence is not None and error.path == CONTROLLER_EPOCH:
            raise Fenced from error
    await cache.catch_up(*(operation.path for operation in (*checks, *operations)))
    return outcome


async def change_node(
    cache: MetadataCache,
    path: str,
    change: Change,
    *,
    parents: Sequence[str] = (),
    requires: Sequence[str] = (),
    is_own_if_equal: bool = True,
) -> bytes | None:
    """Changes one node to what `change` computes, even if others change it at the same time.
    Returns the value that the node has now.

    `parents` are created with the node if they are missing, topmost first. `requires` are nodes
    that must exist when the change is written: raises `NoNode` if one does not. After an unknown
    outcome the change is taken as written if the node has the next version and the value that was
    written. With `is_own_if_equal` false it never does, because another broker may have written the
    same value."""
    tries = Tries(path)
    checks = [Check(required) for required in requires]
    unknown: tuple[bytes, int] | None = None
    while True:
        node = await cache.store.read(path)
        if is_own_if_equal and node is not None and (node.value, node.version) == unknown:
            await cache.catch_up(path)
            return node.value
        before = None if node is None else node.value
        after = change(before)
        if after is None or after == before:
            return before
        try:
            await attempt(cache, *checks, *await _replacement(cache, path, node, after, parents))
        except (BadVersion, NodeExists, NoNode) as error:
            if error.path in requires:
                raise
            tries.lost_race()
        except OutcomeUnknown:
            unknown = (after, 0 if node is None else node.version + 1)
            tries.unknown_outcome()
        else:
            return after


async def _replacement(
    cache: MetadataCache, path: str, node: Node | None, value: bytes, parents: Sequence[str]
) -> list[Operation]:
    if node is not None:
        return [Set(path, value, node.version)]
    parent_nodes = await cache.store.read_each(parents) if parents else []
    missing = [
        parent
        for parent, parent_node in zip(parents, parent_nodes, strict=True)
        if parent_node is None
    ]
    return [*map(Create, missing), Create(path, value)]


def _blind(operations: Sequence[Operation]) -> Operation | None:
    """Returns the first operation that would change a node without a check of its version. A node
    may be deleted without one if a node above it is checked, as with the partitions of a topic."""
    checked = tuple(
        operation.path + "/"
        for operation in operations
        if isinstance(operation, Check) and operation.version != ANY_VERSION
    )
    for operation in operations:
        if isinstance(operation, Create | Check) or operation.version != ANY_VERSION:
            continue
        if isinstance(operation, Set) or not (operation.path + "/").startswith(checked):
            return operation
    return None
