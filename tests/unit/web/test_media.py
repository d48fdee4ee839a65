"""Content negotiation, error codes, deep JSON, and server-sent events."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from odradek.web.bodies import decode_json, read_body
from odradek.web.endpoints import Endpoint
from odradek.web.media import negotiated
from odradek.web.problems import Problem, negotiated_response
from odradek.web.streaming import EventStream, event
from tests.unit.web.service import Service, served

V2 = "application/vnd.kafka.v2+json"
OFFERED = (V2, "application/json")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", V2),
        ("*/*", V2),
        ("application/*", V2),
        ("application/json", "application/json"),
        ("application/json; q=0.5, application/vnd.kafka.v2+json", V2),
        ("Application/JSON;q=1.0,*/*;q=0.1", "application/json"),
        ("text/html", None),
        ("application/json;q=0", None),
        ("*/*, application/vnd.kafka.v2+json;q=0", "application/json"),
        ("application/vnd.kafka.v2+json;q=0.1, application/*", "application/json"),
        ("application/json;q=x", None),
    ],
)
def test_the_client_chooses_the_media_type(accept: str, expected: str | None) -> None:
    assert negotiated(accept, OFFERED) == expected


class Thing(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 422),
        (b'{"name": 3}', 400),
        (b"{", 400),
        (b"\xff", 400),
        (b'{"name": "a", "b": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, status: int) -> None:
    with pytest.raises(Problem) as caught:
        decode_json(body, Thing)
    assert caught.value.status == status


class Streaming(Service):
    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()
        self.endpoints = [
            Endpoint("GET", "/v2", self._v2, "Answers.", produces=OFFERED),
            Endpoint(
                "POST", "/v2", self._refuse, "Refuses.", produces=OFFERED, media_types=(V2,),
                changes=True, body=Thing,
            ),
            Endpoint(
                "GET", "/events", self._events, "Goes on.", produces=("text/event-stream",),
                is_stream=True,
            ),
        ]  # fmt: skip

    async def _v2(self, request: Request) -> Response:
        return negotiated_response(request, ["a"])

    async def _refuse(self, request: Request) -> Response:
        thing = await read_body(request, Thing)
        raise Problem(404, f"there is no {thing.name}", code=40401)

    async def _events(self, request: Request) -> Response:
        async def events() -> AsyncGenerator[bytes]:
            try:
                yield event(b"1", id_="7")
                await asyncio.Event().wait()
            finally:
                self.ended.set()

        return EventStream(events(), keep_alive_s=0.01)


async def test_answers_and_errors_have_the_type_that_was_asked_for() -> None:
    async with served(Streaming()) as client:
        for accept, status, kind in [
            (V2, 200, V2),
            ("application/json", 200, "application/json"),
            ("image/png", 406, "application/json"),
        ]:
            answer = await client.ask("GET", "/v2", headers={"accept": accept})
            assert (answer.status, answer.headers["content-type"]) == (status, kind)
        headers = {"content-type": f"{V2}; charset=utf-8", "accept": V2}
        answer = await client.ask("POST", "/v2", b'{"name": "x"}', headers)
        assert answer.headers["content-type"] == V2
        assert answer.json == {"error_code": 40401, "message": "there is no x"}
        described = (await client.ask("GET", "/openapi.json")).json
        answers = described["paths"]["/v2"]["post"]["responses"]
        assert {"200", "400", "401", "413", "415"} <= set(answers)


async def test_a_stream_of_events_is_kept_alive_and_ends_with_its_client() -> None:
    service = Streaming()
    async with served(service) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        received = b""
        async with asyncio.timeout(20):
            while b"still here" not in received:
                received += await reader.read(65536)
        assert b"id: 7\ndata: 1\n\n" in received
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(20):
            await service.ended.wait()
