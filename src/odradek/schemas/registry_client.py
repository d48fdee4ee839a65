"""A client of a schema registry's HTTP interface, for serializers, tools and Spark.

    client = RegistryClient("http://localhost:8081")
    client.register("clicks-value", "AVRO", text)
    client.by_id(1).text

Any registry with Confluent's interface works. Calls block, and any number of threads may use one
client. What never changes its meaning is asked once and cached: the schema of an id, and a version
of a subject. Threads that ask for the same at the same time send one request. Programs on an event
loop run the calls in threads, as our clients do for their serializers
(`odradek.world.blocking_calls`), so there is one code for both.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import quote

from odradek.schemas.answer_cache import AnswerCache
from odradek.schemas.errors import BadSchema, RegistryFailed
from odradek.schemas.framing import SchemaId, id_text
from odradek.schemas.parsed import SCHEMA_TYPES, Reference, SchemaType
from odradek.schemas.registry_http import RegistryHttp
from odradek.schemas.registry_settings import RegistrySettings

LATEST: Final = "latest"
_MAX_REFERENCE_DEPTH: Final = 64


class Schema(NamedTuple):
    """A schema's text. `imports` are the texts that it refers to; each comes after those it needs
    itself. `write_rules` are the names of the rules of its data contract that a writer must carry
    out on each value, such as encrypting a field."""

    kind: SchemaType
    text: str
    imports: tuple[tuple[str, str], ...] = ()
    write_rules: tuple[str, ...] = ()


class Registered(NamedTuple):
    """A schema that a registry knows. `guid` identifies it in every registry, if the registry has
    such identifiers; without a subject, `subject` is empty and `version` 0."""

    id: int
    schema: Schema
    subject: str = ""
    version: int = 0
    guid: str | None = None
    references: tuple[Reference, ...] = ()


def require_no_rules(found: Registered, way_out: str = "") -> None:
    """Raises `BadSchema` if a value would have to be checked or changed before it is written with
    this schema: it may have to be encrypted. Everybody who writes calls it."""
    rules = ", ".join(found.schema.write_rules)
    if rules:
        raise BadSchema(
            f"schema {found.id} demands of writers the rule {rules[:200]}, and rules are not"
            f" carried out here: write with Confluent's client{way_out}"
        )


class Verdict(NamedTuple):
    """Whether a schema is compatible with those of a subject, and if not, why."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class RegistryClient:
    """A client of one registry, which may have several instances."""

    def __init__(self, registry: str | RegistrySettings | Mapping[str, Any]) -> None:
        """`registry` is a URL, which may contain a user and a password, or the settings of
        `registry_settings` as an object or as a dict."""
        if isinstance(registry, str):
            registry = RegistrySettings.of_url(registry)
        elif not isinstance(registry, RegistrySettings):
            registry = RegistrySettings.from_properties(registry)
        self.settings = registry
        self._http = RegistryHttp(registry)
        self._cache = AnswerCache(registry.cache_capacity)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets a client with the same settings, and connections of its own."""
        return RegistryClient, (self.settings,)

    @property
    def url(self) -> str:
        """The addresses of the registry, without passwords."""
        return self._http.url

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Schemas

    def by_id(self, schema_id: int, subject: str | None = None) -> Schema:
        """Returns the schema of an id. `subject` says in which context, if not the default one."""
        query = {"subject": subject} if subject else None
        return self._cache.get(
            ("id", schema_id, subject),
            lambda: self._schema(self._ask("GET", f"/schemas/ids/{schema_id}", query=query)),
        )

    def references_of(self, schema_id: int) -> tuple[Reference, ...]:
        """Returns the versions of other subjects that the schema of an id refers to."""
        return self._cache.get(
            ("references", schema_id),
            lambda: tuple(_references(self._ask("GET", f"/schemas/ids/{schema_id}"))),
        )

    def by_guid(self, guid: str) -> Schema:
        return self._cache.get(
            ("guid", guid),
            lambda: self._schema(self._ask("GET", f"/schemas/guids/{_quoted(guid)}")),
        )

    def by_id_or_guid(self, schema: SchemaId) -> Schema:
        """Returns the schema that a record names in its frame or in a header."""
        return self.by_guid(id_text(schema)) if isinstance(schema, bytes) else self.by_id(schema)

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Returns the contexts that have the schema of a GUID, and its id in each."""
        found = self._list(f"/schemas/guids/{_quoted(guid)}/ids")
        return [(str(place.get("context") or "."), int(place["id"])) for place in found]

    def latest(self, subject: str) -> Registered:
        """Asks for the newest version of a subject. The answer is not cached."""
        return self._registered(self._ask("GET", f"/subjects/{_quoted(subject)}/versions/latest"))

    def latest_with_metadata(self, subject: str, metadata: Mapping[str, str]) -> Registered:
        """Asks for the newest version whose metadata has these properties."""
        query = [("key", key) for key in metadata] + [("value", text) for text in metadata.values()]
        return self._registered(self._ask("GET", f"/subjects/{_quoted(subject)}/metadata", query))

    def version(self, subject: str, version: int) -> Registered:
        """Returns a version of a subject, also one that was softly deleted."""
        return self._cache.get(
            ("version", subject, version),
            lambda: self._registered(self._version(subject, version)),
        )

    def _version(self, subject: str, version: int) -> dict[str, Any]:
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        return self._cache.get(
            ("answer", subject, version), lambda: self._ask("GET", path, {"deleted": "true"})
        )

    def register(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Iterable[Reference] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """Registers a schema under a subject and returns its id, which is the old one if it was
        registered before."""
        return self.registered(subject, kind, text, references, normalize=normalize).id

    def registered(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Iterable[Reference] = (),
        *,
        normalize: bool = False,
    ) -> Registered:
        """Registers a schema under a subject and returns what the registry says of it: its id, and
        the rules that it has taken over from the version before. Old registries say only the id."""
        body = _request(kind, text, references)
        path = f"/subjects/{_quoted(subject)}/versions"
        answer = self._ask("POST", path, _normalizing(normalize), body)
        schema = Schema(kind, text, write_rules=_write_rules(answer))
        return Registered(int(answer["id"]), schema, subject)

    def lookup(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Iterable[Reference] = (),
        *,
        normalize: bool = False,
        deleted: bool = False,
    ) -> Registered:
        """Returns the version of a subject that is this schema; raises `NotRegistered`."""
        query = {**_normalizing(normalize), **_deleted(deleted)}
        body = _request(kind, text, references)
        return self._registered(self._ask("POST", f"/subjects/{_quoted(subject)}", query, body))

    def check(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Iterable[Reference] = (),
        *,
        version: int | Literal["latest"] | None = LATEST,
        normalize: bool = False,
    ) -> Verdict:
        """Asks whether a schema is compatible with a version of a subject, or with `version=None`
        with those that its level compares."""
        path = f"/compatibility/subjects/{_quoted(subject)}/versions"
        if version is not None:
            path = f"{path}/{version}"
        query = {"verbose": "true", **_normalizing(normalize)}
        answer = self._ask("POST", path, query, _request(kind, text, references))
        messages = answer.get("messages") or []
        return Verdict(bool(answer["is_compatible"]), tuple(map(str, messages)))

    # Subjects and versions

    def subjects(self, prefix: str | None = None, *, deleted: bool = False) -> list[str]:
        query = {} if prefix is None else {"subjectPrefix": prefix}
        return [str(name) for name in self._list("/subjects", {**query, **_deleted(deleted)})]

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        path = f"/subjects/{_quoted(subject)}/versions"
        return [int(number) for number in self._list(path, _deleted(deleted))]

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Deletes all versions and returns them. Permanently only after softly."""
        self._cache.clear()
        query = {"permanent": "true"} if permanent else None
        return [
            int(number) for number in self._ask("DELETE", f"/subjects/{_quoted(subject)}", query)
        ]

    def delete_version(
        self, subject: str, version: int | Literal["latest"], *, permanent: bool = False
    ) -> int:
        self._cache.clear()
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        return int(self._ask("DELETE", path, {"permanent": "true"} if permanent else None))

    def referenced_by(self, subject: str, version: int | Literal["latest"]) -> list[int]:
        """Returns the ids of the schemas that refer to a version."""
        path = f"/subjects/{_quoted(subject)}/versions/{version}/referencedby"
        return [int(number) for number in self._list(path)]

    def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """Returns the subjects and versions that have the schema of an id."""
        path = f"/schemas/ids/{schema_id}/versions"
        pairs = self._list(path, _deleted(deleted))
        return [(str(pair["subject"]), int(pair["version"])) for pair in pairs]

    def version_of_id(self, schema_id: int, subject: str) -> int:
        """Returns the version of a subject that has the schema of an id, or 0 if none has. The
        answer is cached."""
        return self._cache.get(
            ("version of id", schema_id, subject),
            lambda: dict(self.versions_of_id(schema_id)).get(subject, 0),
        )

    def contexts(self) -> list[str]:
        return [str(name) for name in self._list("/contexts")]

    def types(self) -> list[str]:
        """Returns the formats that the registry knows."""
        return [str(name) for name in self._list("/schemas/types")]

    # Compatibility levels and modes; without a subject, those of the registry

    def config(
        self, subject: str | None = None, *, default_to_global: bool = True
    ) -> dict[str, Any]:
        """Returns the configuration of a subject, with its `compatibilityLevel`."""
        query = {"defaultToGlobal": str(default_to_global).lower()} if subject else None
        return dict(self._ask("GET", _of_subject("/config", subject), query))

    def set_config(self, subject: str | None = None, **config: object) -> dict[str, Any]:
        """Changes a configuration: `set_config("clicks-value", compatibility="FULL")`."""
        return dict(self._ask("PUT", _of_subject("/config", subject), body=config))

    def delete_config(self, subject: str | None = None) -> Any:
        return self._ask("DELETE", _of_subject("/config", subject))

    def mode(self, subject: str | None = None, *, default_to_global: bool = True) -> str:
        query = {"defaultToGlobal": str(default_to_global).lower()} if subject else None
        return str(self._ask("GET", _of_subject("/mode", subject), query)["mode"])

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        query = {"force": "true"} if force else None
        return str(self._ask("PUT", _of_subject("/mode", subject), query, {"mode": mode})["mode"])

    def delete_mode(self, subject: str) -> Any:
        return self._ask("DELETE", _of_subject("/mode", subject))

    # Answers

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | list[tuple[str, str]] | None = None,
        body: object = None,
    ) -> Any:
        answer = self._http.ask(method, path, body, query)
        if method != "DELETE" and not isinstance(answer, dict | list):
            raise RegistryFailed(f"{self.url}{path} did not answer as a registry does")
        return answer

    def _list(self, path: str, query: Mapping[str, str] | None = None) -> list[Any]:
        answer = self._ask("GET", path, query)
        if not isinstance(answer, list):
            raise RegistryFailed(f"{self.url}{path} did not answer as a registry does")
        return answer

    def _registered(self, answer: dict[str, Any]) -> Registered:
        try:
            return Registered(
                int(answer["id"]),
                self._schema(answer),
                str(answer.get("subject", "")),
                int(answer.get("version") or 0),
                answer.get("guid"),
                _references(answer),
            )
        except (KeyError, TypeError, ValueError):
            raise RegistryFailed(f"{self.url} did not answer as a registry does") from None

    def _schema(self, answer: dict[str, Any]) -> Schema:
        try:
            kind = answer.get("schemaType") or "AVRO"
            if kind not in SCHEMA_TYPES:
                raise RegistryFailed(f"a schema of type {kind} is unknown here")
            imports: dict[str, str] = {}
            self._gather(answer, imports, 0)
            rules = _write_rules(answer)
            return Schema(kind, str(answer["schema"]), tuple(imports.items()), rules)
        except (AttributeError, KeyError):
            raise RegistryFailed(f"{self.url} did not answer as a registry does") from None

    def _gather(self, answer: dict[str, Any], imports: dict[str, str], depth: int) -> None:
        """Collects the schemas that a schema refers to, dependencies first."""
        if depth > _MAX_REFERENCE_DEPTH:
            raise RegistryFailed(f"the references of a schema at {self.url} have no end")
        for reference in _references(answer):
            if reference.name in imports:
                continue
            found = self._version(reference.subject, reference.version)
            self._gather(found, imports, depth + 1)
            imports[reference.name] = str(found["schema"])


@cache
def client_of(url: str) -> RegistryClient:
    """Returns the client of a registry, one for each URL in a process, so that its cache is
    shared."""
    return RegistryClient(url)


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _of_subject(path: str, subject: str | None) -> str:
    return path if subject is None else f"{path}/{_quoted(subject)}"


def _normalizing(normalize: bool) -> dict[str, str]:
    return {"normalize": "true"} if normalize else {}


def _deleted(deleted: bool) -> dict[str, str]:
    return {"deleted": "true"} if deleted else {}


def _request(kind: SchemaType, text: str, references: Iterable[Reference]) -> dict[str, object]:
    asked: dict[str, object] = {"schema": text}
    if kind != "AVRO":
        asked["schemaType"] = kind
    names = [reference._asdict() for reference in references]
    if names:
        asked["references"] = names
    return asked


def _write_rules(answer: Mapping[str, Any]) -> tuple[str, ...]:
    rule_set = answer.get("ruleSet") or {}
    return tuple(
        f"{rule.get('name')} ({rule.get('type')})"
        for kind in ("domainRules", "encodingRules")
        for rule in rule_set.get(kind) or ()
        if rule.get("mode") in {"WRITE", "WRITEREAD"} and not rule.get("disabled")
    )


def _references(answer: Mapping[str, Any]) -> tuple[Reference, ...]:
    return tuple(
        Reference(str(item["name"]), str(item["subject"]), int(item["version"]))
        for item in answer.get("references") or ()
    )
