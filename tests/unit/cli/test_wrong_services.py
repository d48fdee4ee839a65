"""What a tool says where another service answers than the one that it asks, and what it adds to
the words of the right one."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from odradek.cli.connect import worker_client
from odradek.cli.main import main
from odradek.tools import hints


class _Other(BaseHTTPRequestHandler):
    """By default one of our own services, which lacks the path."""

    status = 404
    answer = json.dumps({"error_code": 404, "message": "there is no /x here"})

    def do_GET(self) -> None:
        if length := int(self.headers.get("content-length", 0)):
            self.rfile.read(length)
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer.encode())

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A service that answers everything with the same status and the same words."""
    status, answer = request.param
    monkeypatch.setattr(_Other, "status", status)
    monkeypatch.setattr(_Other, "answer", answer)
    with HTTPServer(("127.0.0.1", 0), _Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("schema list --registry", "is it a schema registry? If not, say where it is with"),
        ("connect list --worker", "is it a worker of Connect? If not, name one with --worker"),
        ("sql -e SHOW_STREAMS; --server", "is it a SQL server? If not, name another by --server"),
    ],
)
@pytest.mark.parametrize(
    "other", [(404, _Other.answer), (400, "<html>what?</html>"), (415, "{}")], indirect=True
)
def test_another_service_is_not_taken_for_the_right_one(
    words: str, question: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [word.replace("_", " ") for word in words.split()]
    assert main([*line, other]) == 1
    said = capsys.readouterr().err
    assert question in said
    assert other in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "other",
    [(404, json.dumps({"error_code": 40401, "message": "Subject 'clicks' not found."}))],
    indirect=True,
)
def test_the_words_of_a_registry_stand_alone(
    other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "get", "clicks", "--registry", other]) == 1
    assert capsys.readouterr().err == (
        "odradek schema: Subject 'clicks' not found; odradek schema list shows all\n"
    )


@pytest.mark.parametrize(
    ("other", "words", "advice"),
    [
        (
            (400, json.dumps({"error_code": 400, "message": "X contains no connector type"})),
            "validate {file}",
            "X contains no connector type: set connector.class; odradek connect plugins lists",
        ),
        (
            (404, json.dumps({"error_code": 404, "message": "Unknown task: in-7"})),
            "restart in --task 7",
            "Unknown task: in-7; odradek connect status in shows the tasks",
        ),
    ],
    indirect=["other"],
)
def test_the_words_of_a_worker_are_followed_by_what_to_do(
    other: str, words: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"name": "in", "config": {"connector.class": "X"}}')
    assert main(["connect", *words.format(file=file).split(), "--worker", other]) == 1
    assert advice in capsys.readouterr().err


@pytest.mark.parametrize("other", [(404, "<!DOCTYPE HTML><html>no</html>")], indirect=True)
def test_a_page_is_not_quoted(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "list", "--worker", other]) == 1
    said = capsys.readouterr().err
    assert "answered 404: a page of HTML; is it a worker of Connect?" in said
    assert "<" not in said


def test_silence_is_said_while_a_tool_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hints, "SILENCE_S", 0.05)
    monkeypatch.setattr(worker_client, "_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert main(["connect", "list", "--worker", url]) == 1
    hinted, failed = capsys.readouterr().err.splitlines()
    assert hinted.startswith(f"hint: {url} has not answered for 0.05 seconds; waiting. Is it a")
    assert "no worker answers" in failed
