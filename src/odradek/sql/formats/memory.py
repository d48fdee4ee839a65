"""A schema registry in memory, for tests of statements: what is registered is known, and nothing
is checked or kept."""

from collections.abc import Iterable
from typing import Any

from odradek.schemas.errors import NotRegistered
from odradek.schemas.parsed import Reference, SchemaType
from odradek.schemas.registry_client import Registered, RegistryClient, Schema


class MemoryRegistry(RegistryClient):
    """Answers what codecs and statements ask a registry."""

    def __init__(self) -> None:
        super().__init__("http://localhost:1")
        self._schemas: list[Schema] = []
        self._subjects: dict[str, list[int]] = {}

    def by_id(self, schema_id: int, subject: str | None = None) -> Schema:
        if not 1 <= schema_id <= len(self._schemas):
            raise NotRegistered(f"Schema {schema_id} not found", 404, 40403)
        return self._schemas[schema_id - 1]

    def registered(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Iterable[Reference] = (),
        *,
        normalize: bool = False,
    ) -> Registered:
        schema = Schema(kind, text)
        if schema not in self._schemas:
            self._schemas.append(schema)
        schema_id = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return Registered(schema_id, schema, subject)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        versions = self._subjects.pop(subject, None)
        if versions is None:
            raise NotRegistered(f"Subject '{subject}' not found.", 404, 40401)
        return list(range(1, len(versions) + 1))

    def latest(self, subject: str) -> Registered:
        versions = self._subjects.get(subject)
        if not versions:
            raise NotRegistered(f"Subject '{subject}' not found.", 404, 40401)
        newest = versions[-1]
        return Registered(newest, self.by_id(newest), subject, len(versions))

    def lookup(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Iterable[Reference] = (),
        **_: Any,
    ) -> Registered:
        for number, schema_id in enumerate(self._subjects.get(subject, ()), 1):
            if self.by_id(schema_id) == Schema(kind, text):
                return Registered(schema_id, self.by_id(schema_id), subject, number)
        raise NotRegistered(f"Subject '{subject}' not found.", 404, 40401)

    def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        return [
            (subject, versions.index(schema_id) + 1)
            for subject, versions in self._subjects.items()
            if schema_id in versions
        ]

    def subjects(self, prefix: str | None = None, *, deleted: bool = False) -> list[str]:
        return [name for name in self._subjects if name.startswith(prefix or "")]
