"""Who may change something: by the address that the console listens on, and by the cluster."""

import pytest
from starlette.requests import Request

from odradek.console.asking import Form, _check_form
from odradek.console.service import ConsoleService
from odradek.console.settings import ConsoleSettings
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
