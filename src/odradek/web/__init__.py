"""The one HTTP stack of the platform: every HTTP service is built with this room.

    endpoints     one declaration for each endpoint: routing and the OpenAPI page follow from it
    application   makes an ASGI application of endpoints, with the guards below around them
    guards        hosts, origins, content types, sizes, log-in, and what may change something
    login         who asks: basic, bearer, or the certificate of mutual TLS
    serving       runs an application until it is told to stop, and drains it
    problems      errors as JSON
    routing       the endpoint of a method and path
    media         which media type an answer has (`Accept`)
    bodies        JSON bodies of requests
    streaming     answers that go on: server-sent events
    openapi       the description of a service

It needs the extra `web` (docs/decisions/0027-web-stack.md) and is imported only by a service that
is used: `missing()` tells a user what to install. It knows nothing of Kafka.
"""

from importlib.util import find_spec

from odradek.world.installing import install_line

_NEEDED = ("starlette", "uvicorn", "httptools", "msgspec")


def missing(extra: str = "web") -> str | None:
    """Returns what to do if the packages of the extra are not installed, or None. `extra` is one
    that has them and more, for who needs more."""
    for name in _NEEDED:
        if find_spec(name) is None:
            return f"{name} is not installed: {install_line(extra)}"
    return None
