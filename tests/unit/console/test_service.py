"""Who may change something: by the address that the console listens on, and by the cluster."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.errors import CorruptRecords
from odradek.console.asking import BadForm, Form, PageRequest, Pages, _check_form, trouble
from odradek.console.rights import named
from odradek.console.service import ConsoleService
from odradek.console.sessions import LogIn
from odradek.console.settings import ConsoleSettings
from odradek.protocol.errors import ErrorCode, UnknownTopic, error_for
from odradek.services.identity import Caller, Kind
from odradek.web.problems import Problem

SASL = {"client.security.protocol": "SASL_PLAINTEXT", "client.sasl.mechanism": "PLAIN"}
EVERYWHERE = {"listeners": "http://0.0.0.0:8080"}


@pytest.mark.parametrize(
    ("properties", "may"),
    [
        ({}, True),
        (EVERYWHERE, False),
        ({**EVERYWHERE, "authentication.method": "NONE"}, True),
        ({**EVERYWHERE, **SASL}, True),
        ({"odradek.read.only": "true"}, False),
    ],
)
async def test_who_may_change(properties: dict[str, str], may: bool) -> None:
    settings = ConsoleSettings.from_file(properties)
    console = ConsoleService(settings)
    console.policy(settings.listener())
    session = console.sessions.new()
    request = Request({"type": "http", "method": "POST", "headers": []})
    form = Form([("csrf", session.csrf)])
    if may:
        _check_form(console, request, console.first, session, form)
        with pytest.raises(Problem, match="another session"):
            _check_form(console, request, console.first, session, Form([]))
    else:
        with pytest.raises(Problem, match=r"read-only|everybody could change"):
            _check_form(console, request, console.first, session, form)


async def test_every_page_is_declared_once_and_is_a_page() -> None:
    endpoints = ConsoleService(ConsoleSettings()).endpoints()
    paths = [(one.method, one.path) for one in endpoints]
    assert len(paths) == len(set(paths)) > 50
    assert all(one.changes == (one.method == "POST") for one in endpoints)


class _Brokers:
    """Brokers of which the first that are asked have not heard of a new topic."""

    def __init__(self, deaf: int) -> None:
        self.asked = 0
        self._deaf = deaf

    async def describe_topics(self, names: list[str]) -> dict[str, object]:
        self.asked += 1
        is_known = self.asked > self._deaf
        return dict.fromkeys(
            names, "the topic" if is_known else error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )


@pytest.mark.parametrize(("just_changed", "asked"), [(True, 3), (False, 1)])
async def test_a_topic_that_was_just_made_is_asked_for_again(
    just_changed: bool, asked: int
) -> None:
    brokers = _Brokers(deaf=2)
    page = SimpleNamespace(admin=brokers, watcher=SimpleNamespace(has_just_changed=just_changed))
    if just_changed:
        assert str(await PageRequest.topic(cast(PageRequest, page), "new")) == "the topic"
    else:
        with pytest.raises(UnknownTopic):
            await PageRequest.topic(cast(PageRequest, page), "new")
    assert brokers.asked == asked


@pytest.mark.parametrize(
    ("properties", "is_secure"),
    [
        ({}, False),
        ({"advertised.listeners": "https://console.example.org"}, True),
        ({"advertised.listeners": "http://console.example.org"}, False),
    ],
)
async def test_a_cookie_is_for_https_alone_if_browsers_use_it(
    properties: dict[str, str], is_secure: bool
) -> None:
    console = ConsoleService(ConsoleSettings.from_file(properties))
    scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "headers": [],
             "server": ("127.0.0.1", 8080), "query_string": b""}  # fmt: skip
    response = console.with_cookie(Response(), Request(scope), console.sessions.new())
    assert ("secure" in response.headers["set-cookie"].lower()) is is_secure


async def test_who_has_not_logged_in_sends_small_forms_only() -> None:
    """To read a form of 20 MB takes seconds, in which nobody else is answered."""
    for endpoint in ConsoleService(ConsoleSettings()).endpoints():
        if endpoint.method == "POST" and not endpoint.path.startswith("/c/"):
            assert endpoint.max_body_bytes is not None, endpoint.path
            assert endpoint.max_body_bytes <= 200_000


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kind.DELEGATION_TOKEN, "ada may not write"),
        (Kind.PASSWORD, "id-of-a-token may not write"),
    ],
)
def test_users_are_called_by_their_name_and_not_by_that_of_their_token(
    kind: Kind, words: str
) -> None:
    log_in = LogIn(Caller(kind, "id-of-a-token", "hmac"), "ada")
    asked = cast(PageRequest, SimpleNamespace(log_in=log_in))
    assert named(asked, "id-of-a-token may not write") == words


class _Elsewhere(Pages):
    shown_service = ("Connect worker", "connect.url")


@pytest.mark.parametrize("answer", ["null", "[]", '"x"', "{}", '{"a": 1}'])
async def test_an_address_of_another_service_is_named_in_a_page(answer: str) -> None:
    async def page(_: PageRequest) -> Response:
        return Response(json.loads(answer)["status"]["connector"])

    pages = _Elsewhere(ConsoleService(ConsoleSettings()))
    with pytest.raises(
        Problem, match=r"does not understand.*Is connect\.url of the console"
    ) as told:
        await pages._understanding(page)(cast(PageRequest, None))
    assert told.value.status == 502


async def test_what_a_form_lacks_is_no_fault_of_a_service() -> None:
    async def page(_: PageRequest) -> Response:
        raise BadForm("The name is missing")

    with pytest.raises(BadForm):
        await _Elsewhere(ConsoleService(ConsoleSettings()))._understanding(page)(
            cast(PageRequest, None)
        )


def test_a_batch_that_cannot_be_read_is_no_fault_of_the_console() -> None:
    cluster = cast(Any, None)
    status, title, message, advice = trouble(CorruptRecords("the batch after offset 7"), cluster)
    assert (status, title) == (422, "These records cannot be read")
    assert (message, "an offset or a time" in advice) == ("the batch after offset 7", True)
