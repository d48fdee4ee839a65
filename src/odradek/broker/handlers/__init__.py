"""The APIs that a broker serves: one module each, imported when the first request comes.

A handler module is named like the module of its messages (`odradek.protocol.messages`). It ends
with a declaration:

    HANDLER: Final = Handler(API, handle, permission=..., splitting=[...])

A new module in this package is one more API that the broker serves and that ApiVersions
advertises, in all versions in which its messages are declared. There is no list to add it to.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Generic, TypeVar

from odradek.broker.permissions import Permission
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import Encoded, Pipelined, RequestContext, Services
from odradek.protocol.apis import AnyApi, Api, all_apis, find_api
from odradek.protocol.schema import Request, Response

_PREFIX: Final = f"{__name__}."

AnyRequest = TypeVar("AnyRequest", bound=Request)
AnyResponse = TypeVar("AnyResponse", bound=Response)


class Handler(Generic[AnyRequest, AnyResponse]):
    """How a broker serves one API.

    - `handle(services, context, request)` returns the response, or an awaitable of it, or None
      if the client wants no response.
    - `permission` says what a client needs permission for, and who asks for it
      (`broker.permissions`).
    - `splitting` says how a request with many elements is served in pieces
      (`broker.request_splitting`). Without it the handler gets every request whole.
    - `has_small_responses` promises that a response never has so many elements that it must be
      encoded in steps. The APIs that are asked most often promise it, because to count the
      elements of each response takes time.
    """

    __slots__ = ("api", "handle", "has_small_responses", "permission", "splitting")

    def __init__(
        self,
        api: Api[AnyRequest, AnyResponse],
        handle: Callable[
            [Services, RequestContext, AnyRequest],
            AnyResponse | Encoded | Awaitable[AnyResponse | Encoded | None] | Pipelined | None,
        ],
        *,
        permission: Permission,
        splitting: Sequence[Splitting] = (),
        has_small_responses: bool = False,
    ) -> None:
        self.api = api
        self.handle = handle
        self.permission = permission
        self.splitting = splitting
        self.has_small_responses = has_small_responses


AnyHandler = Handler[Any, Any]


def find_handler(key: int) -> AnyHandler | None:
    """Returns the handler of the API with this key, or None if this broker does not serve it."""
    api = find_api(key)
    if api is None:
        return None
    name = _PREFIX + api.module_name
    try:
        handler: AnyHandler = import_module(name).HANDLER
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
    return handler


@cache
def served_apis() -> Mapping[int, AnyApi]:
    """Returns the APIs that this broker serves, by key, in the order of their keys. It imports all
    message modules, but no handler."""
    from pkgutil import iter_modules  # noqa: PLC0415 - the start of a broker does without it

    names = {module.name for module in iter_modules(__path__)}
    return {key: api for key, api in sorted(all_apis().items()) if api.module_name in names}
