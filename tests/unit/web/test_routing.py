"""Which endpoint a path leads to."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from odradek.web.endpoints import Endpoint
from odradek.web.routing import Routes


async def _answer(request: Request) -> Response:
    return Response()


def routes(*declared: str) -> Routes:
    return Routes(
        Endpoint(method, path, _answer, "") for method, path in (one.split(" ") for one in declared)
    )


@pytest.mark.parametrize(
    ("path", "expected", "values"),
    [
        ("/topics", "/topics", {}),
        ("/topics/", "/topics", {}),
        ("/topics/-/configs", "/topics/-/configs", {}),
        ("/topics/-", "/topics/{topic}", {"topic": "-"}),
        ("/topics/a%2Fb/configs", "/topics/{topic}/configs", {"topic": "a/b"}),
        ("/ids/007", "/ids/{id:int}", {"id": 7}),
        ("/ids/-", "/ids/-", {}),
        ("/ids/seven", None, {}),
        ("/ids/9999999999999999999", None, {}),
        ("/topics//configs", None, {}),
        ("/", "/", {}),
        ("/nothing", None, {}),
    ],
)
def test_literal_segments_win_and_names_may_have_slashes(
    path: str, expected: str | None, values: dict[str, object]
) -> None:
    found = routes(
        "GET /",
        "GET /topics",
        "GET /topics/{topic}",
        "GET /topics/{topic}/configs",
        "GET /topics/-/configs",
        "GET /ids/{id:int}",
        "GET /ids/-",
    ).find(path)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.methods["GET"].path == expected
    assert found.parameters == values


def test_head_is_get_and_other_methods_are_their_own() -> None:
    found = routes("GET /a", "DELETE /a").find("/a")
    assert found is not None
    assert found.endpoint("HEAD") is found.endpoint("GET") is not None
    assert found.endpoint("PUT") is None


def test_an_endpoint_cannot_be_declared_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        routes("GET /a/{b}", "GET /a/{b}")
    with pytest.raises(ValueError, match="is called"):
        routes("GET /a/{b}", "PUT /a/{c}")
