"""`odradek lag serve`: builds the service from the flags and runs it until it is told to stop."""

import argparse
import asyncio
import os
import sys

from odradek import __version__
from odradek.cli.lag.lag_actions import rules_of
from odradek.cli.lag.query_options import queries_of
from odradek.ops.lag.history import LagHistory
from odradek.ops.lag.notifications import (
    BadTemplate,
    Mail,
    MailServer,
    Sender,
    Webhook,
    template,
)
from odradek.ops.lag.sampling import LagAdmin
from odradek.ops.lag.service import INTERVAL_S, LagService
from odradek.tools.admin_session import open_admin
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import read_text
from odradek.web import missing
from odradek.world.clock import SystemClock

_PASSWORD = "ODRADEK_SMTP_PASSWORD"  # noqa: S105 - the name of a variable


async def serve_lag(arguments: argparse.Namespace) -> int:
    absent = missing()
    if absent is not None:
        raise CommandFailed(absent)
    from odradek.ops.lag.api import BurrowApi
    from odradek.ops.lag.commit_reading import CommitReader
    from odradek.web.application import application
    from odradek.web.guards import Policy
    from odradek.web.login import BadLoginFile, Login, read_tokens, read_users
    from odradek.web.serving import CannotServe, Listener, serve

    host, port = address(arguments.listen or "127.0.0.1:8000", "--listen")
    listener = Listener(host, port)
    try:
        login = Login(
            read_users(read_text(arguments.users), arguments.users) if arguments.users else {},
            read_tokens(read_text(arguments.tokens), arguments.tokens) if arguments.tokens else {},
        )
    except BadLoginFile as error:
        raise CommandFailed(str(error)) from None
    hosts = frozenset({host, *(arguments.allowed_host or ())})
    policy = Policy(listener.is_loopback, hosts, login, open_paths=frozenset({"/burrow/admin"}))
    senders, queries = senders_of(arguments), queries_of(arguments)
    # Elections and restarts of brokers are waited for.
    async with open_admin(LagAdmin, arguments, retries="5") as admin:
        name = arguments.name or (await admin.describe_metadata([])).cluster_id or "kafka"
        service = LagService(
            admin, SystemClock(), LagHistory(rules_of(arguments)), name,
            say=_say, senders=senders, confirm=arguments.confirm or 3, queries=queries,
        )  # fmt: skip
        await service.sample()
        reader = CommitReader(client_properties(arguments), service.history, _say)
        working = [
            asyncio.create_task(service.run(arguments.interval or INTERVAL_S)),
            asyncio.create_task(reader.run()),
        ]
        app = application(
            "Lag of consumer groups", __version__, BurrowApi(service).endpoints(), policy
        )

        def ready(url: str) -> None:
            print(f"lag of {name} is served at {url}/v3/kafka/{name}/consumer", flush=True)

        try:
            await serve(app, listener, ready)
        except CannotServe as error:
            raise CommandFailed(str(error)) from None
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await service.stop()
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def address(text: str, flag: str) -> tuple[str, int]:
    """Reads `host:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{flag} {text} is not HOST:PORT, as 127.0.0.1:8000")
    return host.strip("[]"), int(port)


def senders_of(arguments: argparse.Namespace) -> list[Sender]:
    """Returns who is told of changes."""
    senders: list[Sender] = []
    try:
        if arguments.webhook is not None:
            file = arguments.webhook_template
            senders.append(
                Webhook(arguments.webhook, template(read_text(file), file) if file else None)
            )
        if arguments.smtp is not None:
            host, port = address(arguments.smtp, "--smtp")
            user = arguments.smtp_user
            password = os.environ.get(_PASSWORD, "")
            if user is not None and not password:
                raise CommandFailed(f"--smtp-user needs the password in ${_PASSWORD}")
            file = arguments.mail_template
            senders.append(
                Mail(
                    MailServer(host, port, user, password),
                    arguments.mail_from or arguments.mail_to[0],
                    arguments.mail_to,
                    template(read_text(file), file) if file else None,
                )
            )
    except BadTemplate as error:
        raise CommandFailed(str(error)) from None
    return senders
