"""Large requests are served in pieces, so that nobody else waits for all of one.

A request may have tens of thousands of elements, each of them some microseconds' work. The
elements of the APIs below do not depend on each other: such a request is cut into several smaller
ones, the handler is asked for each, and other connections get a turn in between whenever the
pieces have taken long enough (`world.timeslice`). The client gets one answer. Its own next request
waits for it, as always.

Handlers know nothing of this. What is left out serves its elements together, or looks after
itself (Produce).
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from odradek.protocol.apis import ApiKey
from odradek.protocol.schema import Request, Response
from odradek.world.timeslice import Timeslice

if TYPE_CHECKING:
    from odradek.broker.dispatch import Handle, Reply
    from odradek.broker.services import RequestContext, Services
    from odradek.protocol.messages.describe_configs import DescribeConfigsResource
    from odradek.protocol.messages.metadata import MetadataRequestTopic

T = TypeVar("T")


class Cut(NamedTuple):
    """Where the elements stand in a request and in its response. `inner` are arrays in the elements
    of `outer`, whose own elements then count."""

    outer: str
    answered: str
    inner: str | None = None
    answered_inner: str = ""
    # Some milliseconds' work at worst.
    at_once: int = 50
    # What makes an element the same as another, where that is answered once.
    identity: Callable[[Any], Hashable] | None = None


_PARTITIONS: Final = Cut("topics", "topics", "partitions", "partitions")
# What a group commits together is written together, as long as that takes no longer than this.
_COMMITS: Final = _PARTITIONS._replace(at_once=1_000)
_FETCHED_OFFSETS: Final = Cut("topics", "topics", "partition_indexes", "partitions", at_once=1_000)


def _same_topic(asked: "MetadataRequestTopic") -> Hashable:
    return asked.name, asked.topic_id


def _same_settings(asked: "DescribeConfigsResource") -> Hashable:
    """Kafka answers a resource as often as it is named: 25 KB ask for 1.7 GB. Its own clients name
    each once."""
    keys = asked.configuration_keys
    return asked.resource_type, asked.resource_name, None if keys is None else tuple(keys)


CUTS: Final[dict[int, Sequence[Cut]]] = {
    # To find a time may mean to look at a hundred thousand records.
    ApiKey.LIST_OFFSETS: [_PARTITIONS._replace(at_once=20)],
    ApiKey.METADATA: [Cut("topics", "topics", identity=_same_topic)],
    ApiKey.OFFSET_COMMIT: [_COMMITS],
    # Of a group among `groups` the handler itself fetches some partitions at a time.
    ApiKey.OFFSET_FETCH: [Cut("groups", "groups"), _FETCHED_OFFSETS],
    ApiKey.FIND_COORDINATOR: [Cut("coordinator_keys", "coordinators")],
    # A rebalance follows when the last of them have left, or its time is up.
    ApiKey.LEAVE_GROUP: [Cut("members", "members", at_once=500)],
    ApiKey.DESCRIBE_GROUPS: [Cut("groups", "groups")],
    ApiKey.DELETE_GROUPS: [Cut("groups_names", "results")],
    ApiKey.DELETE_TOPICS: [Cut("topics", "responses"), Cut("topic_names", "responses")],
    ApiKey.DELETE_RECORDS: [_PARTITIONS],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [_PARTITIONS],
    ApiKey.ADD_PARTITIONS_TO_TXN: [Cut("transactions", "results_by_transaction")],
    ApiKey.WRITE_TXN_MARKERS: [Cut("markers", "markers")],  # Gives way within a marker too.
    ApiKey.TXN_OFFSET_COMMIT: [_COMMITS],
    ApiKey.CREATE_ACLS: [Cut("creations", "results")],
    ApiKey.DELETE_ACLS: [Cut("filters", "filter_results")],
    ApiKey.DESCRIBE_CONFIGS: [Cut("resources", "results", at_once=5, identity=_same_settings)],
    ApiKey.ALTER_CONFIGS: [Cut("resources", "responses")],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [Cut("resources", "responses")],
    ApiKey.CREATE_PARTITIONS: [Cut("topics", "results")],
    ApiKey.ELECT_LEADERS: [
        Cut("topic_partitions", "replica_election_results", "partitions", "partition_result")
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [Cut("topics", "responses", "partitions", "partitions")],
    ApiKey.OFFSET_DELETE: [_PARTITIONS],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [Cut("users", "results")],
    ApiKey.DESCRIBE_PRODUCERS: [Cut("topics", "topics", "partition_indexes", "partitions")],
    ApiKey.DESCRIBE_TRANSACTIONS: [Cut("transactional_ids", "transaction_states")],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [Cut("group_ids", "groups")],
    ApiKey.LOOK_UP: [_PARTITIONS._replace(at_once=10)],
}


class Piece(NamedTuple):
    request: Request
    # Its first element goes on with the last of the piece before it.
    continues: bool


def in_pieces(key: int, handle: "Handle") -> "Handle":
    """The same handler, for requests of any size."""
    cuts = CUTS.get(key)
    if cuts is None:
        return handle

    def handle_any(
        services: "Services", context: "RequestContext", request: Request
    ) -> "Reply | Awaitable[Reply] | object":
        for cut in cuts:
            if count(request, cut) > cut.at_once:
                return _piece_by_piece(cut, request, lambda piece: handle(services, context, piece))
            if cut.identity is not None:
                elements = getattr(request, cut.outer)
                if elements and len(elements) > 1:
                    known = {cut.identity(element): element for element in elements}
                    setattr(request, cut.outer, list(known.values()))
        return handle(services, context, request)

    return cast("Handle", handle_any)


def count(request: Request, cut: Cut) -> int:
    elements = getattr(request, cut.outer)
    if not elements:
        return 0
    if cut.inner is None:
        return len(elements)
    return sum(len(getattr(element, cut.inner)) or 1 for element in elements)


async def _piece_by_piece(
    cut: Cut, request: Request, handle: Callable[[Request], object]
) -> Response:
    whole: Response | None = None
    timeslice = Timeslice.of_running_loop()
    if cut.identity is not None:
        await _leave_out_duplicates(request, cut, cut.identity)
    for piece in cut_up(request, cut):
        if timeslice.is_over():
            await timeslice.next_turn()
        answer = handle(piece.request)
        if isinstance(answer, Awaitable):
            answer = await answer
        assert isinstance(answer, Response)
        if whole is None:
            whole = answer
        else:
            join(whole, answer, cut, continues=piece.continues)
    assert whole is not None  # what is cut has elements
    return whole


async def _leave_out_duplicates(
    request: Request, cut: Cut, identity: Callable[[Any], Hashable]
) -> None:
    timeslice = Timeslice.of_running_loop()
    known = {}
    for element in getattr(request, cut.outer):
        if timeslice.is_over():
            await timeslice.next_turn()
        known[identity(element)] = element
    setattr(request, cut.outer, list(known.values()))


def cut_up(request: Request, cut: Cut) -> Iterator[Piece]:
    elements = getattr(request, cut.outer)
    if cut.inner is None:
        for first in range(0, len(elements), cut.at_once):
            part = elements[first : first + cut.at_once]
            yield Piece(_with(request, cut.outer, part), continues=False)
        return
    piece: list[object] = []
    room = cut.at_once
    continues = False
    for element in elements:
        inner = getattr(element, cut.inner)
        first = 0
        while True:
            part = inner[first : first + room]
            piece.append(_with(element, cut.inner, part))
            first += len(part)
            room -= len(part) or 1
            if room:
                break
            yield Piece(_with(request, cut.outer, piece), continues)
            piece, room = [], cut.at_once
            continues = first < len(inner)
            if not continues:
                break
    if piece:
        yield Piece(_with(request, cut.outer, piece), continues)


def join(whole: Response, response: Response, cut: Cut, *, continues: bool) -> None:
    """Adds the answer to a piece to those of the pieces before it."""
    so_far, more = getattr(whole, cut.answered), getattr(response, cut.answered)
    if continues and so_far and more:
        getattr(so_far[-1], cut.answered_inner).extend(getattr(more[0], cut.answered_inner))
        more = more[1:]
    so_far.extend(more)
    if getattr(response, "error_code", 0) and not getattr(whole, "error_code", 0):
        for name in ("error_code", "error_message"):
            if hasattr(response, name):
                setattr(whole, name, getattr(response, name))


def _with(message: T, name: str, value: object) -> T:
    changed = copy(message)
    setattr(changed, name, value)
    return changed
