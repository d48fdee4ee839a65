"""Serves the paths below `/contexts/{context}`. A client that has such a URL as the address of the
registry sees only that context.

This ASGI layer around the application rewrites the paths, so the endpoints do not know of them. For
example, `/contexts/.ctx/subjects/s/versions` becomes `/subjects/:.ctx:s/versions`.
"""

from urllib.parse import parse_qsl, quote, unquote, urlencode

from starlette.types import ASGIApp, Receive, Scope, Send

from odradek.registry.names import context_name, in_context

_WITH_SUBJECT = {"subjects", "config", "mode"}


class ContextPaths:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path", b"").startswith(b"/contexts/"):
            scope = _rewritten(scope)
        await self._app(scope, receive, send)


def _rewritten(scope: Scope) -> Scope:
    segments = scope["raw_path"].decode("latin-1").strip("/").split("/")
    context, rest = unquote(segments[1]), segments[2:]
    if not rest:
        return scope
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    whole = f":{context_name(context)}:"
    if rest[0] in {"config", "mode"} and len(rest) == 1:
        rest = [*rest, quote(whole, safe="")]
    elif rest in (["subjects"], ["schemas"]):
        query["subjectPrefix"] = in_context(context, query.get("subjectPrefix", ""))
    elif rest[:2] == ["schemas", "ids"]:
        query["subject"] = in_context(context, query.get("subject", ""))
    else:
        rest = _with_subject(context, rest)
    path = "/" + "/".join(rest)
    return {
        **scope,
        "raw_path": path.encode("latin-1"),
        "path": unquote(path),
        "query_string": urlencode(query).encode("latin-1"),
    }


def _with_subject(context: str, segments: list[str]) -> list[str]:
    """Returns the segments of a path with the context in the subject. The subject is the segment
    after `subjects`, or after a first `config` or `mode`."""
    for index, segment in enumerate(segments[:-1]):
        is_name = segment == "subjects" or (index == 0 and segment in _WITH_SUBJECT)
        if is_name:
            subject = in_context(context, unquote(segments[index + 1]))
            return [*segments[: index + 1], quote(subject, safe=""), *segments[index + 2 :]]
    return segments
