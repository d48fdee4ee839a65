"""Sessions: found by their name alone, renewed at a log-in, ended by time."""

import asyncio

from odradek.console import sessions as module
from odradek.console.sessions import LogIn, Sessions
from odradek.services.identity import Caller, Kind

ADA = LogIn(Caller(Kind.PASSWORD, "ada", "secret-of-ada"), "ada")


async def test_a_log_in_renews_the_name() -> None:
    sessions = Sessions(60)
    visitor = sessions.new()
    visitor.say("good", "hello")
    user = sessions.log_in(visitor, "kafka", ADA)
    assert sessions.find(visitor.name) is None
    assert sessions.find(user.name) is user
    assert user.csrf != visitor.csrf
    assert [message.text for message in user.take_messages()] == ["hello"]
    assert user.take_messages() == []
    assert sessions.is_used("kafka", ADA.caller)
    assert sessions.log_out(user, "kafka") is ADA
    assert sessions.find(user.name) is None
    assert not sessions.is_used("kafka", ADA.caller)


async def test_a_session_ends_when_it_is_not_used() -> None:
    sessions = Sessions(0.05)
    session = sessions.new()
    assert sessions.find(session.name) is session
    await asyncio.sleep(0.1)
    assert sessions.find(session.name) is None


async def test_visitors_push_out_no_users() -> None:
    sessions = Sessions(60)
    user = sessions.log_in(sessions.new(), "kafka", ADA)
    for _ in range(module._MAX_SESSIONS + 10):
        sessions.new()
    assert sessions.find(user.name) is user


async def test_nothing_shows_the_names_and_secrets() -> None:
    session = Sessions(60).log_in(Sessions(60).new(), "kafka", ADA)
    for secret in (session.name, session.csrf, "secret-of-ada"):
        assert secret not in repr(session)
    assert not session.is_own("")
    assert not session.is_own("ž")
    assert session.is_own(session.csrf)
