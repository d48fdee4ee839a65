"""What a service refuses, and how it says so."""

import asyncio
import base64
import json
import logging

import pytest

from odradek.web.guards import Limits, Policy, host_of
from odradek.web.login import Login, hashed, hashed_token, read_tokens, read_users
from tests.unit.web.service import Service, served

JSON = {"content-type": "application/json"}
ORDER = json.dumps({"item": "book", "count": 2}).encode()


async def test_an_endpoint_answers_and_openapi_describes_it() -> None:
    async with served(Service()) as client:
        answer = await client.ask("GET", "/look?deep=true&ids=1,2")
        assert answer.status == 200
        assert answer.json == {"who": "ANONYMOUS", "deep": True, "ids": [1, 2]}
        assert "access-control-allow-origin" not in answer.headers
        described = (await client.ask("GET", "/openapi.json")).json
        assert described["openapi"] == "3.1.0"
        names = [
            parameter["name"] for parameter in described["paths"]["/look"]["get"]["parameters"]
        ]
        assert names == ["deep", "ids"]
        body = described["paths"]["/orders"]["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"] == {"$ref": "#/components/schemas/Order"}
        assert set(described["components"]["schemas"]["Order"]["properties"]) == {"item", "count"}


async def test_mistakes_are_answered_in_json_with_what_to_do() -> None:
    async with served(Service()) as client:
        for method, path, status, words in [
            ("GET", "/nothing", 404, "/openapi.json lists"),
            ("PUT", "/look", 405, "does not take PUT; it takes GET"),
            ("GET", "/look?dep=true", 400, "did you mean deep?"),
            ("GET", "/look?deep=perhaps", 400, "true or false"),
            ("GET", "/look?ids=1,x", 400, "is a number"),
            ("GET", "/broken", 500, "unexpected"),
        ]:
            answer = await client.ask(method, path)
            assert answer.status == status, path
            assert answer.json["error_code"] == status
            assert words in answer.json["message"]


async def test_options_says_what_a_path_takes() -> None:
    async with served(Service()) as client:
        answer = await client.ask("OPTIONS", "/look")
        assert (answer.status, answer.headers["allow"]) == (200, "GET, HEAD, OPTIONS")
        answer = await client.ask("OPTIONS", "/orders")
        assert (answer.status, answer.headers["allow"]) == (200, "OPTIONS, POST")
        assert (await client.ask("OPTIONS", "/nothing")).status == 404


class TestBrowsers:
    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "attacker.example"},
            {"host": "127.0.0.1.attacker.example:80"},
            {"host": ""},
        ],
    )
    async def test_another_host_is_refused(self, headers: dict[str, str]) -> None:
        async with served(Service()) as client:
            assert (await client.ask("GET", "/look", headers=headers)).status == 421

    async def test_a_host_that_was_allowed_is_answered(self) -> None:
        async with served(Service(), Policy(hosts=frozenset({"ops.example"}))) as client:
            for host in ("ops.example", "OPS.example:9090", "localhost", "[::1]:1"):
                assert (await client.ask("GET", "/look", headers={"host": host})).status == 200

    async def test_a_page_of_another_origin_is_refused(self) -> None:
        async with served(Service()) as client:
            for headers in (
                {"origin": "https://attacker.example"},
                {"origin": "null"},
                {"origin": "http://[localhost"},
                {"sec-fetch-site": "cross-site"},
            ):
                answer = await client.ask("POST", "/orders", ORDER, JSON | headers)
                assert answer.status == 403, headers
            own = {"origin": f"http://localhost:{client.port}"}
            assert (await client.ask("POST", "/orders", ORDER, JSON | own)).status == 201

    async def test_a_body_that_a_form_can_send_is_refused(self) -> None:
        async with served(Service()) as client:
            for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
                answer = await client.ask("POST", "/orders", ORDER, {"content-type": kind})
                assert answer.status == 415
                assert "application/json" in answer.json["message"]
            full = {"content-type": "application/json; charset=utf-8"}
            assert (await client.ask("POST", "/orders", ORDER, full)).status == 201

    async def test_a_path_that_is_not_there_is_said_before_the_type_of_a_body(self) -> None:
        async with served(Service()) as client:
            for kind in ("application/json", "application/vnd.schemaregistry.v1+json"):
                answer = await client.ask("POST", "/nothing", ORDER, {"content-type": kind})
                assert answer.status == 404, kind

    def test_hosts_are_read_as_browsers_write_them(self) -> None:
        assert host_of("Localhost.:80") == "localhost"
        assert host_of("[::1]:9090") == "::1"
        assert host_of("[broken") == ""


async def test_changes_are_refused_off_loopback_without_a_log_in() -> None:
    async with served(Service(), Policy(is_loopback=False)) as client:
        assert (await client.ask("GET", "/look")).status == 200
        for method, path in (("POST", "/orders"), ("DELETE", "/orders/3"), ("PATCH", "/x")):
            answer = await client.ask(method, path, None, JSON)
            assert answer.status == 403, path
            assert "127.0.0.1" in answer.json["message"]
    login = Login(tokens={hashed_token("secret"): "ada"})
    async with served(Service(), Policy(is_loopback=False, login=login)) as client:
        headers = JSON | {"authorization": "Bearer secret"}
        assert (await client.ask("POST", "/orders", ORDER, headers)).status == 201


class TestLogin:
    def policy(self) -> Policy:
        users = read_users(f"# staff\nada: {hashed('pässword')}\nbob: {hashed('b:b')}\n", "users")
        tokens = read_tokens(f"robot: {hashed_token('t0ken')}", "tokens")
        return Policy(login=Login(users, tokens), open_paths=frozenset({"/openapi.json"}))

    async def test_users_and_tokens_are_let_in_and_others_are_not(self) -> None:
        def basic(text: str) -> str:
            return "Basic " + base64.b64encode(text.encode()).decode()

        async with served(Service(), self.policy()) as client:
            for authorization, who in [
                (basic("ada:pässword"), "ada"),
                (basic("ada:pässword"), "ada"),
                (basic("bob:b:b"), "bob"),
                ("bearer t0ken", "robot"),
                (basic("ada:wrong"), None),
                (basic("eve:pässword"), None),
                (basic("ada"), None),
                ("Basic ###", None),
                ("Bearer t0ke", None),
                ("Digest x", None),
                (None, None),
            ]:
                headers = {} if authorization is None else {"authorization": authorization}
                answer = await client.ask("GET", "/look", headers=headers)
                if who is None:
                    assert answer.status == 401, authorization
                    assert answer.headers["www-authenticate"].startswith("Basic realm=")
                else:
                    assert answer.json["who"] == who
            assert (await client.ask("GET", "/openapi.json")).status == 200

    @pytest.mark.parametrize("text", ["", "ada", "ada:", "ada: secret", ": x"])
    def test_wrong_files_name_the_line(self, text: str) -> None:
        with pytest.raises(ValueError, match="file"):
            read_users(text, "file")
        with pytest.raises(ValueError, match="file"):
            read_tokens(text, "file")


class TestLimits:
    async def test_a_large_body_is_refused_with_and_without_its_length(self) -> None:
        policy = Policy(limits=Limits(max_body_bytes=100))
        async with served(Service(), policy) as client:
            assert (await client.ask("POST", "/orders", b"x" * 101, JSON)).status == 413
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(
                b"POST /orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
                b"80\r\n" + b"x" * 128 + b"\r\n0\r\n\r\n"
            )
            assert (await reader.readline()).split()[1] == b"413"
            writer.close()
            await writer.wait_closed()

    async def test_too_many_requests_at_once_are_refused(self) -> None:
        service = Service()
        async with served(service, Policy(limits=Limits(max_requests=1))) as client:
            slow = asyncio.create_task(client.ask("GET", "/slow"))
            await service.entered.wait()
            answer = await client.ask("GET", "/look")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            service.gate.set()
            assert (await slow).status == 200

    async def test_an_endpoint_that_takes_too_long_is_given_up(self) -> None:
        async with served(Service(), Policy(limits=Limits(timeout_s=0.05))) as client:
            assert (await client.ask("GET", "/slow")).status == 504


async def test_the_access_log_has_who_what_and_how_long_but_no_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "odradek.web.access"):
        async with served(Service()) as client:
            await client.ask("GET", "/look?deep=true")
            await client.ask("GET", "/no%0Athing")
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("access")]
    assert lines[0].startswith("127.0.0.1 ANONYMOUS GET /look 200 ")
    assert lines[0].endswith(" ms")
    assert "GET /no\\nthing 404" in lines[1]
