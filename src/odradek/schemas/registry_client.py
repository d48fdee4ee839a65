"""Schemas from a registry: `GET /schemas/ids/N`, `GET|POST /subjects/S/versions`.

A schema's id never changes its meaning, so answers are cached. Any registry with Confluent's
interface works. The URL may contain a user and a password.
"""

import base64
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from functools import cache
from typing import Final, Literal, NamedTuple

from odradek.schemas.errors import RegistryFailed

Kind = Literal["AVRO", "JSON", "PROTOBUF"]

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S: Final = 30


class Reference(NamedTuple):
    """A schema that another one imports under a name."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema's text. `imports` are the texts that it refers to; each comes after those it needs
    itself."""

    kind: Kind
    text: str
    imports: tuple[tuple[str, str], ...] = ()


class Registered(NamedTuple):
    id: int
    schema: Schema


class RegistryClient:
    """A client of one registry. It caches answers for its lifetime, and is safe to use from many
    threads."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise RegistryFailed(
                f"{url!r} is not the URL of a schema registry, such as http://localhost:8081"
            )
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._url = f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
        self._headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if parts.username is not None:
            said = f"{urllib.parse.unquote(parts.username)}:"
            said += urllib.parse.unquote(parts.password or "")
            self._headers["Authorization"] = f"Basic {base64.b64encode(said.encode()).decode()}"
        self._by_id: dict[int, Schema] = {}
        self._lock = threading.Lock()

    def by_id(self, schema_id: int) -> Schema:
        with self._lock:
            known = self._by_id.get(schema_id)
            if known is None:
                known = self._schema(self._ask(f"/schemas/ids/{schema_id}"))
                self._by_id[schema_id] = known
            return known

    def latest(self, subject: str) -> Registered:
        """Asks for the newest version of a subject. The answer is not cached."""
        answer = self._ask(f"/subjects/{_quoted(subject)}/versions/latest")
        return Registered(int(str(answer["id"])), self._schema(answer))

    def register(
        self, subject: str, kind: Kind, text: str, references: tuple[Reference, ...] = ()
    ) -> int:
        """Registers a schema under a subject and returns its id, which is the old one if it was
        registered before."""
        asked: dict[str, object] = {"schema": text}
        if kind != "AVRO":
            asked["schemaType"] = kind
        if references:
            asked["references"] = [reference._asdict() for reference in references]
        return int(str(self._ask(f"/subjects/{_quoted(subject)}/versions", asked)["id"]))

    def _schema(self, answer: dict[str, object]) -> Schema:
        kind = str(answer.get("schemaType", "AVRO"))
        if kind not in {"AVRO", "JSON", "PROTOBUF"}:
            raise RegistryFailed(f"a schema of type {kind} is unknown here")
        imports: dict[str, str] = {}
        self._gather(answer, imports)
        return Schema(kind, str(answer["schema"]), tuple(imports.items()))  # type: ignore[arg-type]

    def _gather(self, answer: dict[str, object], imports: dict[str, str]) -> None:
        """Collects the schemas that a schema refers to, dependencies first."""
        references = answer.get("references") or []
        assert isinstance(references, list)
        for reference in references:
            if reference["name"] in imports:
                continue
            path = f"/subjects/{_quoted(reference['subject'])}/versions/{reference['version']}"
            found = self._ask(path)
            self._gather(found, imports)
            imports[reference["name"]] = str(found["schema"])

    def _ask(self, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - http or https, checked above
            self._url + path, data, self._headers
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                answer = json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise RegistryFailed(f"{self._url}{path}: {_error_message(error)}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RegistryFailed(f"the registry at {self._url} cannot be asked: {reason}") from None
        if not isinstance(answer, dict):
            raise RegistryFailed(f"{self._url}{path} did not answer as a registry does")
        return answer


@cache
def client_of(url: str) -> RegistryClient:
    """Returns the client of a registry, one for each URL in a process, so that its cache is
    shared."""
    return RegistryClient(url)


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _error_message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
