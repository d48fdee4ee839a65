"""Who may change a subject, where callers log in (docs/decisions/0061-who-may-change-a-subject.md).

The brokers decide: they are asked, as the caller, which operations it may do with the topic that
the subject is about, and with the topic of schemas.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from starlette.requests import Request

from odradek.registry.names import qualified
from odradek.services.client_pool import CallerClients
from odradek.services.permissions import may_write
from odradek.web.guards import PRINCIPAL
from odradek.web.problems import Problem

_SUFFIXES: Final = ("-key", "-value")

Clients = Callable[[Request], AbstractAsyncContextManager[CallerClients]]


class Authorization:
    def __init__(self, clients: Clients, schemas_topic: str) -> None:
        """`clients` lends the Kafka clients of who sends a request."""
        self._clients = clients
        self._schemas_topic = schemas_topic

    async def check(self, request: Request, subject: str | None) -> None:
        """Raises a `Problem` if the caller may not change a subject; None is the registry."""
        topic = topic_of(subject)
        names = [self._schemas_topic] if topic is None else [self._schemas_topic, topic]
        async with self._clients(request) as clients:
            if await may_write(clients, names):
                return
        needed = " or ".join(f"topic {name}" for name in reversed(names))
        what = "the settings of the registry" if subject is None else f"subject {subject}"
        raise Problem(
            403,
            f"{request.scope[PRINCIPAL]} may not change {what}: it needs WRITE on {needed}",
            code=40301,
        )


def topic_of(subject: str | None) -> str | None:
    """Returns the topic whose keys or values a subject is about, by the usual strategy."""
    name = qualified(subject or "").subject
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix)
    return None
