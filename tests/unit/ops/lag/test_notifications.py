"""What is news, and what people are told."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from odradek.ops.lag.evaluation import GroupStatus, Status
from odradek.ops.lag.notifications import (
    BadTemplate,
    Change,
    Changes,
    Mail,
    MailServer,
    NotDelivered,
    Webhook,
    template,
)


def group(status: Status, name: str = "g") -> GroupStatus:
    return GroupStatus(name, status, 1.0, 7)


CHANGE = Change("local", Status.OK, group(Status.ERR, 'say "hi"'), 0)


def test_a_status_counts_when_it_lasts() -> None:
    changes = Changes("local", confirm=2)
    found = []
    for status in (Status.OK, Status.ERR, Status.OK, Status.ERR, Status.ERR, Status.ERR):
        found.append(len(changes.update([group(status)], 0)))
    assert found == [0, 0, 0, 0, 1, 0]
    (back,) = changes.update([group(Status.OK)], 0) or changes.update([group(Status.OK)], 0)
    assert (back.previous, back.now.status) == (Status.ERR, Status.OK)


def test_a_group_that_is_gone_is_forgotten() -> None:
    changes = Changes("local", confirm=1)
    assert len(changes.update([group(Status.WARN)], 0)) == 1
    assert changes.update([], 0) == []
    assert len(changes.update([group(Status.WARN)], 0)) == 1


def test_values_are_escaped_in_the_body_of_a_webhook() -> None:
    plain = json.loads(Webhook("http://host/x").body(CHANGE))
    assert (plain["group"], plain["status"], plain["previous"]) == ('say "hi"', "ERR", "OK")
    made = Webhook("http://host/x", template('{"text": "$group is $status"}', "t"))
    assert json.loads(made.body(CHANGE)) == {"text": 'say "hi" is ERR'}


def test_wrong_templates_and_addresses_are_refused() -> None:
    with pytest.raises(BadTemplate, match=r"no \$grup"):
        template("$grup", "file")
    with pytest.raises(BadTemplate, match="stands alone"):
        template("5 $ ", "file")
    with pytest.raises(BadTemplate, match="not a URL"):
        Webhook("ftp://host")
    with pytest.raises(BadTemplate, match="Subject"):
        Mail(MailServer("host"), "a@b", ["c@d"], template("text", "file"))


def test_a_mail_has_a_subject_of_one_line() -> None:
    broken = Change("local", Status.OK, group(Status.WARN, "a\nb"), 0)
    message = Mail(MailServer("host"), "a@b", ["c@d", "e@f"]).message(broken)
    assert message["Subject"] == "[odradek] group a b is WARN"
    assert message["To"] == "c@d, e@f"
    assert "7 records behind" in message.get_content()


def test_a_webhook_is_posted_and_a_refusal_is_told() -> None:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204 if self.path == "/good" else 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keeps the output of tests clean."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        Webhook(f"{url}/good").send(CHANGE)
        with pytest.raises(NotDelivered, match="answered 500"):
            Webhook(f"{url}/bad").send(CHANGE)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert json.loads(bodies[0])["status"] == "ERR"
    with pytest.raises(NotDelivered):
        Webhook(f"{url}/good").send(CHANGE)
