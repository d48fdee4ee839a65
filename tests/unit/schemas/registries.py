"""A registry in memory, on loopback: as much of the interface as serializers use, and faults that a
real one has only when it fails. Everything else is tested with the registry service itself."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit


class Registry:
    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, object]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.connections = 0
        self.has_guids = True
        self.url = ""
        self.failures: list[int] = []
        """The statuses of the next answers; 0 closes the connection."""
        self.answering = threading.Event()
        """Requests wait while it is not set."""
        self.answering.set()

    def add(self, subject: str, schema: dict[str, object]) -> int:
        same = [key for key, known in self.schemas.items() if known == schema]
        schema_id = same[0] if same else len(self.schemas) + 1
        self.schemas[schema_id] = schema
        ids = self.subjects.setdefault(subject, [])
        if schema_id not in ids:
            ids.append(schema_id)
        return schema_id

    def guid(self, schema_id: int) -> str | None:
        if not self.has_guids:
            return None
        return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(self.schemas[schema_id])))

    def _version(self, subject: str, index: int) -> dict[str, object]:
        schema_id = self.subjects[subject][index]
        version = index + 1 if index >= 0 else len(self.subjects[subject])
        named = {"id": schema_id, "subject": subject, "version": version}
        return {**named, "guid": self.guid(schema_id), **self.schemas[schema_id]}

    def answer(self, path: str, body: dict[str, object] | None) -> object:
        found: object = None
        if body is not None:
            usual = {"schemaType": "AVRO"}
            body = {name: part for name, part in body.items() if part and part != usual.get(name)}
        match [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
            case ["schemas", "ids", number, "versions"]:
                found = [
                    {"subject": subject, "version": ids.index(int(number)) + 1}
                    for subject, ids in self.subjects.items()
                    if int(number) in ids
                ]
            case ["schemas", "guids", guid]:
                ids = [key for key in self.schemas if self.guid(key) == guid]
                found = self.schemas[ids[0]] if ids else None
            case ["subjects", subject, "versions"] if body is not None:
                schema_id = self.add(subject, body)
                found = {"id": schema_id, "guid": self.guid(schema_id)}
            case ["subjects", subject] if body is not None:
                known = [self.schemas[key] for key in self.subjects.get(subject, [])]
                found = self._version(subject, known.index(body)) if body in known else None
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                found = self._version(subject, -1 if version == "latest" else int(version) - 1)
            case ["subjects"]:
                found = sorted(self.subjects)
        return found


@contextmanager
def registry() -> Iterator[Registry]:
    known = Registry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            known.connections += 1
            super().setup()

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_DELETE(self) -> None:
            self._answer(None)

        def _answer(self, body: dict[str, object] | None) -> None:
            known.asked.append(f"{self.command} {self.path}")
            known.authorizations.append(self.headers["Authorization"])
            known.answering.wait(60)
            status = known.failures.pop(0) if known.failures else 200
            if status == 0:
                self.close_connection = True
                return
            found = known.answer(self.path, body) if status == 200 else None
            if found is None:
                status = 404 if status == 200 else status
                found = {"error_code": 40403, "message": "Schema not found"}
            text = json.dumps(found)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield known
    finally:
        known.answering.set()
        server.shutdown()
        thread.join()
        server.server_close()


def query_of(asked: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(asked.split(" ")[1]).query))
