"""What an API of the Kafka protocol is, and how an API is found by its key.

Each module of `odradek.protocol.messages` declares one API, after its two messages:

    API: Final = Api(3, MetadataRequest, MetadataResponse, flexible_from=9)

This is the only place where the key and the versions are stated. The versions are derived from the
fields: the first version is 0, and the last version is the last one in which a field appears,
disappears, or becomes nullable or tagged, or in which the encoding becomes flexible. A declaration
names a version only where the fields cannot tell: `min_version` where Kafka dropped old versions,
and `max_version` where the last version changed no field.

The name of the module is the name of the API in lower case: `list_offsets` for ListOffsets.

To import all message modules takes about ten milliseconds, which would delay the start of a broker
and of each command. So a module is imported when the first message of its API is needed, and all
of them only when a key is not among the APIs that are declared so far (`find_api`) or when all
APIs are asked for (`all_apis`).
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final, Generic, TypeVar

from odradek.protocol import messages
from odradek.protocol.layout import VersionRange, last_change
from odradek.protocol.schema import Request, Response

NEVER_FLEXIBLE: Final = 1 << 15

FIRST_OWN_KEY: Final = 25_000
"""The keys of APIs that Kafka does not have are not below this, so far above Kafka's keys that the
two never meet."""

API_VERSIONS_KEY: Final = 18
"""The key of ApiVersions. The header of its response is an exception that servers and clients must
know before they know anything else about the peer (`protocol.headers`)."""

Request_co = TypeVar("Request_co", bound=Request, covariant=True)
Response_co = TypeVar("Response_co", bound=Response, covariant=True)


class Api(Generic[Request_co, Response_co]):
    """One API: its key, its two messages, and the versions in which they are declared.

    To make an `Api` gives both message classes its key and versions, and registers it under its
    key.
    """

    __slots__ = (
        "flexible_from",
        "key",
        "max_version",
        "min_version",
        "module_name",
        "name",
        "request",
        "response",
    )

    def __init__(
        self,
        key: int,
        request: type[Request_co],
        response: type[Response_co],
        *,
        flexible_from: int = NEVER_FLEXIBLE,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> None:
        self.key = key
        self.name = request.__name__.removesuffix("Request")
        self.module_name = request.__module__.rpartition(".")[2]
        self.request = request
        self.response = response
        self.flexible_from = flexible_from
        self.min_version = min_version
        changed = [last_change(request), last_change(response), min_version]
        if flexible_from != NEVER_FLEXIBLE:
            changed.append(flexible_from)
        self.max_version = max(changed) if max_version is None else max_version
        if self.max_version < max(changed):
            raise ValueError(f"{self.name} has fields of version {max(changed)}")
        self.bind(request)
        self.bind(response)
        _register(self)

    def bind(self, message: type[Request] | type[Response]) -> None:
        """Gives a message class the key and the versions of this API. `Api` does so for the request
        and the response; other modules do so for parts of a response that they encode alone."""
        message.api_key = self.key
        message.bind_versions(
            VersionRange(self.min_version, self.max_version),
            VersionRange(self.flexible_from, NEVER_FLEXIBLE),
        )

    def __repr__(self) -> str:
        return f"Api({self.name} {self.min_version}-{self.max_version})"


AnyApi = Api[Request, Response]

_declared: Final[dict[int, AnyApi]] = {}
_has_declared_all = False
_steps_to_declare = 0
# Modules that are imported in the step of their neighbour. Few brokers offer these APIs, and a step
# more at the start of every broker would change all seeds of the simulation.
_WITHOUT_STEP: Final = frozenset({"get_telemetry_subscriptions", "push_telemetry"})


def _register(api: AnyApi) -> None:
    other = _declared.setdefault(api.key, api)
    if other.request.__module__ != api.request.__module__:
        raise ValueError(f"{api.name} has the key {api.key}, which is the key of {other.name}")
    _declared[api.key] = api


def find_api(key: int) -> AnyApi | None:
    """Returns the API with this key, or None if there is none.

    The first call with a key that is not declared yet imports all message modules.
    """
    api = _declared.get(key)
    if api is None and not _has_declared_all:
        api = all_apis().get(key)
    return api


def all_apis() -> Mapping[int, AnyApi]:
    """Returns all APIs by key. The first call imports all message modules."""
    if not _has_declared_all:
        for _ in declare_all():
            pass
    return _declared


def declare_all() -> Iterator[None]:
    """Imports the message modules that are not imported yet, one a step.

    A broker takes these steps after its port is open, so that its first client waits as little as
    possible and no connection waits for all of them.
    """
    global _has_declared_all, _steps_to_declare
    if _has_declared_all:  # Another broker of this process, as in the simulation, did so.
        for _ in range(_steps_to_declare):
            yield
        return
    from pkgutil import iter_modules  # noqa: PLC0415 - the start of a broker does without it

    steps = 0
    for module in iter_modules(messages.__path__):
        import_module(f"{messages.__name__}.{module.name}")
        if module.name not in _WITHOUT_STEP:
            steps += 1
            yield
    _has_declared_all, _steps_to_declare = True, steps
