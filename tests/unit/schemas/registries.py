"""A registry in memory, on loopback: as much of the interface as clients use."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, object]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.url = ""

    def add(self, subject: str, schema: dict[str, object]) -> int:
        for schema_id, known in self.schemas.items():
            if known == schema and schema_id in self.subjects.get(subject, []):
                return schema_id
        schema_id = len(self.schemas) + 1
        self.schemas[schema_id] = schema
        self.subjects.setdefault(subject, []).append(schema_id)
        return schema_id

    def answer(self, path: str, body: dict[str, object] | None) -> dict[str, object] | None:
        match path.strip("/").split("/"):
            case ["schemas", "ids", schema_id]:
                return self.schemas.get(int(schema_id))
            case ["subjects", subject, "versions"] if body is not None:
                return {"id": self.add(subject, body)}
            case ["subjects", subject, "versions", version]:
                ids = self.subjects.get(subject, [])
                if not ids:
                    return None
                found = ids[-1] if version == "latest" else ids[int(version) - 1]
                return {"id": found, "subject": subject, **self.schemas[found]}
        return None


@contextmanager
def registry() -> Iterator[Registry]:
    known = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, object] | None) -> None:
            known.asked.append(f"{self.command} {self.path}")
            known.authorizations.append(self.headers["Authorization"])
            found = known.answer(self.path, body)
            text = json.dumps(found or {"error_code": 40403, "message": "Schema not found"})
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
