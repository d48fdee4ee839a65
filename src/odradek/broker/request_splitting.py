"""Large requests are served in pieces, so that other connections do not wait for a whole one.

A request may have tens of thousands of elements, each of which takes some microseconds. The
elements of many APIs do not depend on each other. A handler of such an API declares its
`splitting` (`broker.handlers.Handler`). Then a large request is split into several smaller ones,
the handler is called for each of them, and other connections are served in between whenever the
pieces have taken long enough (`world.timeslice`). The client gets one response. The next request of
its connection waits for that response, as always.

The function `handle` of such a handler does not know of this. So a rule that concerns the whole
request cannot be in it: what it counts, sums up or waits for would begin anew with each piece.
Elements that are named twice are found here, by their `identity`, before the request is split. A
handler without `splitting` serves its elements together, or takes care of large requests itself
(Produce, Fetch, and LookUp because of its size limit). A time limit, as of DeleteRecords, is taken
from `RequestContext.deadline_s`, which all pieces share.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from odradek.protocol.schema import Request, Response, Struct
from odradek.world.timeslice import Timeslice

if TYPE_CHECKING:
    from odradek.broker.dispatch import Handle, Reply
    from odradek.broker.services import RequestContext, Services

T = TypeVar("T")


class Splitting(NamedTuple):
    """Where the elements of a request are, and where the response answers them.

    `request_field` is an array of the request, and `response_field` the array of the response that
    answers it. If `request_inner_field` is given, the elements are those of this array in each
    element of `request_field`: partitions within topics, for example.
    """

    request_field: str
    response_field: str
    request_inner_field: str | None = None
    response_inner_field: str = ""
    # How many elements a piece has: some milliseconds' work at worst.
    max_elements: int = 50
    # What identifies an element. Elements with the same identity are served and answered once, and
    # are in `RequestContext.duplicates`, for handlers that refuse them. With inner elements it is
    # called with an element and an inner element, and each of them is served.
    identity: Callable[..., Hashable] | None = None


PARTITIONS: Final = Splitting("topics", "topics", "partitions", "partitions")
"""Many requests and their responses have partitions in topics."""


class Piece(NamedTuple):
    """A part of a request, as a request of its own."""

    request: Request
    # Whether its first element is the rest of the last element of the piece before it.
    continues: bool


def split_requests(splittings: "Sequence[Splitting]", handle: "Handle") -> "Handle":
    """Returns a handler that serves requests of any size by calling `handle` for their pieces.

    A request is split by the first of the splittings for which it is too large.
    """
    if not splittings:
        return handle

    def handle_any(
        services: "Services", context: "RequestContext", request: Request
    ) -> "Reply | Awaitable[Reply] | object":
        for splitting in splittings:
            if count(request, splitting) > splitting.max_elements:
                return _serve_in_pieces(
                    splitting, context, request, lambda piece: handle(services, context, piece)
                )
            if splitting.identity is not None and getattr(request, splitting.request_field):
                for _ in _find_duplicates(splitting, splitting.identity, context, request):
                    pass
        return handle(services, context, request)

    return cast("Handle", handle_any)


def count(request: Request, splitting: Splitting) -> int:
    """Returns how many elements a request has. An element without inner elements counts as one."""
    elements = getattr(request, splitting.request_field)
    if not elements:
        return 0
    inner_field = splitting.request_inner_field
    if inner_field is None:
        return len(elements)
    return sum(len(getattr(element, inner_field)) or 1 for element in elements)


async def _serve_in_pieces(
    splitting: Splitting,
    context: "RequestContext",
    request: Request,
    handle: Callable[[Request], object],
) -> Response:
    whole: Response | None = None
    timeslice = Timeslice.of_running_loop()
    if splitting.identity is not None:
        for _ in _find_duplicates(splitting, splitting.identity, context, request):
            if timeslice.is_over():
                await timeslice.next_turn()
    for piece in split(request, splitting):
        if timeslice.is_over():
            await timeslice.next_turn()
        response = handle(piece.request)
        if isinstance(response, Awaitable):
            response = await response
        assert isinstance(response, Response)
        if whole is None:
            whole = response
        else:
            join(whole, response, splitting, continues=piece.continues)
    assert whole is not None  # A request without elements is not split.
    return whole


def _find_duplicates(
    splitting: Splitting,
    identity: Callable[..., Hashable],
    context: "RequestContext",
    request: Request,
) -> Iterator[None]:
    """Sets `context.duplicates`, and leaves out of the request all but one element of the same
    identity. Yields after each element."""
    elements = getattr(request, splitting.request_field)
    inner_field = splitting.request_inner_field
    distinct: dict[Hashable, object] = {}
    duplicates: set[Hashable] = set()
    for element in elements:
        if inner_field is None:
            identities: Iterable[Hashable] = (identity(element),)
        else:
            identities = (identity(element, inner) for inner in getattr(element, inner_field))
        for each in identities:
            if each in distinct:
                duplicates.add(each)
            distinct[each] = element
            yield
    if duplicates:
        context.duplicates = frozenset(duplicates)
        if inner_field is None:
            setattr(request, splitting.request_field, list(distinct.values()))


def split(request: Request, splitting: Splitting) -> Iterator[Piece]:
    """Yields the pieces of a request, in the order of its elements."""
    elements = getattr(request, splitting.request_field)
    if splitting.request_inner_field is None:
        for first in range(0, len(elements), splitting.max_elements):
            part = elements[first : first + splitting.max_elements]
            yield Piece(_with(request, splitting.request_field, part), continues=False)
        return
    piece: list[object] = []
    room = splitting.max_elements
    continues = False
    for element in elements:
        inner = getattr(element, splitting.request_inner_field)
        first = 0
        while True:
            part = inner[first : first + room]
            piece.append(_with(element, splitting.request_inner_field, part))
            first += len(part)
            room -= len(part) or 1
            if room:
                break
            yield Piece(_with(request, splitting.request_field, piece), continues)
            piece, room = [], splitting.max_elements
            continues = first < len(inner)
            if not continues:
                break
    if piece:
        yield Piece(_with(request, splitting.request_field, piece), continues)


def join(whole: Response, response: Response, splitting: Splitting, *, continues: bool) -> None:
    """Adds the response to a piece to `whole`, the responses to the pieces before it."""
    so_far = getattr(whole, splitting.response_field)
    more = getattr(response, splitting.response_field)
    if continues:
        more = _join_halves(so_far, more, splitting)
    so_far.extend(more)
    if getattr(response, "error_code", 0) and not getattr(whole, "error_code", 0):
        for name in ("error_code", "error_message"):
            if hasattr(response, name):
                setattr(whole, name, getattr(response, name))


def _join_halves(so_far: list[Struct], more: list[Struct], splitting: Splitting) -> list[Struct]:
    """Adds the answer to the rest of a split element to the answer to its beginning. Returns the
    other answers.

    The two answers need not be the last and the first: handlers answer what is denied after what is
    allowed. They are those in which everything is equal but the inner elements.
    """
    inner_field = splitting.response_inner_field
    for number, rest in enumerate(more):
        names = [field.name for field in type(rest).fields if field.name != inner_field]
        for beginning in reversed(so_far[-splitting.max_elements :]):
            if all(getattr(beginning, name) == getattr(rest, name) for name in names):
                getattr(beginning, inner_field).extend(getattr(rest, inner_field))
                return more[:number] + more[number + 1 :]
    return more


def _with(message: T, name: str, value: object) -> T:
    """Returns a copy of a message in which one field has another value."""
    changed = copy(message)
    setattr(changed, name, value)
    return changed
