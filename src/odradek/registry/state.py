"""What the records of `_schemas` add up to.

`apply` is called for every record of the topic, in order, and is the only way to change the state.
It decides nothing: the same records give the same state in every instance. A record that makes no
sense (a foreign one, an id that already means another schema) changes nothing, and `apply` returns
why, so that the log can say so once.

Invariants: an id of a context has one text for ever, and no id is above `max_id`.
"""

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from odradek.registry.errors import Refused
from odradek.registry.names import DEFAULT_CONTEXT, GLOBAL_SUBJECT, matches, qualified, relative
from odradek.registry.records import BadRecord, Entry, Json, Reference, Version, parse, version_of
from odradek.registry.rules import check_metadata, has_known_shape
from odradek.schemas.compatibility import Level

READWRITE: Final = "READWRITE"
READONLY_OVERRIDE: Final = "READONLY_OVERRIDE"

Place = tuple[str, int]
"""A version of a subject."""


class ContextIds:
    """The ids of one context."""

    def __init__(self) -> None:
        self.max_id = 0
        self.places: dict[int, dict[Place, None]] = {}
        self.by_guid: dict[bytes, int] = {}


class RegistryState:
    def __init__(
        self,
        default_level: str = "BACKWARD",
        default_mode: str = READWRITE,
        *,
        validate_fields: bool = False,
        validate_new_schemas: bool = True,
    ) -> None:
        self._default_level = default_level
        self._validations = {
            "validateFields": validate_fields,
            "validateNewSchemas": validate_new_schemas,
        }
        self._default_mode = default_mode
        self._subjects: dict[str, dict[int, Version]] = {}
        self._ids: dict[str, ContextIds] = {}
        self._configs: dict[str | None, Json] = {}
        self._modes: dict[str | None, str] = {}
        self._contexts: dict[str, None] = {}
        self._referrers: dict[Place, dict[Place, None]] = {}
        self._revisions: dict[str, int] = {}
        self._settings_revision = 0

    # Changing it

    def apply(self, key: bytes | None, value: bytes | None, ts: int | None) -> str | None:
        """Applies a record; returns what is wrong with it if it changes nothing."""
        try:
            entry = parse(key, value)
            if entry is None:
                return None
            return self._apply(entry, ts)
        except BadRecord as error:
            return str(error)

    def _apply(self, entry: Entry, ts: int | None) -> str | None:
        value = entry.value
        match entry.kind:
            case "SCHEMA":
                return self._apply_schema(entry, ts)
            case "DELETE_SUBJECT" if value is not None:
                self._delete_subject(entry.subject or "", value.get("version"))
            case "CLEAR_SUBJECT" if value is not None:
                self._clear(entry.subject)
            case "CONFIG":
                _check_config(value)
                self._set(self._configs, entry.subject, value)
            case "MODE":
                mode = None if value is None else value.get("mode")
                self._set(self._modes, entry.subject, str(mode) if mode else None)
            case "CONTEXT":
                assert entry.context is not None
                if value is None:
                    self._contexts.pop(entry.context, None)
                else:
                    self._contexts[entry.context] = None
            case "NOOP" if value is not None:
                self._raise_ids(value.get("maxIds"))
            case "ASSOC" | "DELETE_SUBJECT" | "CLEAR_SUBJECT":
                pass
            case other:
                return f"its keytype {other[:100]!r} is unknown"
        return None

    def _apply_schema(self, entry: Entry, ts: int | None) -> str | None:
        assert entry.subject is not None
        if entry.value is None:
            self._remove((entry.subject, entry.version))
            return None
        version = version_of(entry, ts)
        context = qualified(version.subject).context
        ids = self._ids.setdefault(context, ContextIds())
        # The highest id counts in any case, so that it is not given to anything else.
        ids.max_id = max(ids.max_id, version.id)
        known = self._text_of(ids, version.id)
        if known is not None and not self._means(known, version):
            return f"its id {version.id} already means another schema"
        if known is not None:
            # Many subjects may have the same schema, of which one text is kept.
            version = msgspec.structs.replace(version, schema=known)
        self._put(version, ids)
        return None

    def _means(self, known: str, version: Version) -> bool:
        """Returns whether a record has the schema that its id means. Other registries print a
        schema in another way, for instance when they mark a version as deleted."""
        if known == version.schema:
            return True
        old = self._subjects.get(version.subject, {}).get(version.version)
        if version.deleted and old is not None and old.id == version.id:
            return True
        if version.schema_type == "PROTOBUF":
            return "{" in known and "{" in version.schema
        try:
            return bool(msgspec.json.decode(known) == msgspec.json.decode(version.schema))
        except (msgspec.DecodeError, RecursionError):
            return False

    def _text_of(self, ids: ContextIds, schema_id: int) -> str | None:
        for subject, number in ids.places.get(schema_id, ()):
            return self._subjects[subject][number].schema
        return None

    def _put(self, version: Version, ids: ContextIds) -> None:
        place = (version.subject, version.version)
        versions = self._subjects.setdefault(version.subject, {})
        old = versions.get(version.version)
        if old is not None and old.id != version.id:
            self._forget(place, old, ids)
        is_last = not versions or version.version >= max(versions)
        versions[version.version] = version
        if not is_last:
            self._subjects[version.subject] = dict(sorted(versions.items()))
        ids.places.setdefault(version.id, {})[place] = None
        ids.by_guid[guid_bytes(version)] = version.id
        for target in self._targets(version):
            self._referrers.setdefault(target, {})[place] = None
        context = qualified(version.subject).context
        if context != DEFAULT_CONTEXT:
            self._contexts[context] = None
        self._touch(version.subject)

    def _targets(self, version: Version) -> Iterator[Place]:
        for reference in version.references:
            yield relative(version.subject, reference.subject), reference.version

    def _remove(self, place: Place) -> None:
        subject, number = place
        versions = self._subjects.get(subject, {})
        version = versions.pop(number, None)
        if version is None:
            return
        self._forget(place, version, self._ids[qualified(subject).context])
        if not versions:
            del self._subjects[subject]
        self._touch(subject)

    def _forget(self, place: Place, version: Version, ids: ContextIds) -> None:
        """Removes what is derived from a version."""
        places = ids.places[version.id]
        places.pop(place, None)
        if not places:
            del ids.places[version.id]
            guid = guid_bytes(version)
            if ids.by_guid.get(guid) == version.id:
                del ids.by_guid[guid]
        for target in self._targets(version):
            referrers = self._referrers.get(target, {})
            referrers.pop(place, None)
            if not referrers:
                self._referrers.pop(target, None)

    def _delete_subject(self, subject: str, last: object) -> None:
        versions = self._subjects.get(subject, {})
        for number, version in versions.items():
            if isinstance(last, int) and number <= last and not version.deleted:
                versions[number] = msgspec.structs.replace(version, deleted=True)
        self._touch(subject)

    def _clear(self, subject: str | None) -> None:
        """Removes the deleted versions of a subject, a context (`:.ctx:`), or of all of them."""
        gone = [
            (version.subject, version.version)
            for version in list(self.all_versions())
            if version.deleted and (subject is None or is_within(version.subject, subject))
        ]
        for place in gone:
            self._remove(place)

    def _set(self, settings: dict[str | None, Json] | dict[str | None, str], subject: str | None,
             value: object) -> None:  # fmt: skip
        if value is None:
            settings.pop(subject, None)
        else:
            settings[subject] = value  # type: ignore[assignment]  # The caller's types agree.
        self._settings_revision += 1

    def _raise_ids(self, highest: object) -> None:
        if not isinstance(highest, dict):
            return
        for context, number in highest.items():
            if isinstance(number, int):
                ids = self._ids.setdefault(str(context), ContextIds())
                ids.max_id = max(ids.max_id, number)

    def _touch(self, subject: str) -> None:
        self._revisions[subject] = self._revisions.get(subject, 0) + 1

    # Reading it

    def stamp(self, subject: str) -> tuple[int, int]:
        """Returns a value that is another one once anything has changed that a decision about the
        subject depends on."""
        return self._revisions.get(subject, 0), self._settings_revision

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Returns the versions of a subject, oldest first."""
        found = self._subjects.get(subject, {}).values()
        return [version for version in found if deleted or not version.deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version | None:
        """Returns a version; -1 is the newest one that is not deleted, also with `deleted`."""
        if number == -1:
            versions = self.versions(subject)
            return versions[-1] if versions else None
        found = self._subjects.get(subject, {}).get(number)
        return None if found is None or (found.deleted and not deleted) else found

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        return bool(self.versions(subject, deleted=deleted))

    def subjects(self) -> list[str]:
        """Returns all subjects, also those whose versions are deleted, in order."""
        return sorted(self._subjects)

    def all_versions(self, prefix: str | None = None) -> Iterator[Version]:
        for subject in self.subjects():
            if prefix is None or matches(prefix, subject):
                yield from self._subjects[subject].values()

    def places(self, context: str, schema_id: int) -> list[Version]:
        """Returns all versions that have an id, the first registered first."""
        ids = self._ids.get(context)
        if ids is None:
            return []
        return [
            self._subjects[subject][number] for subject, number in ids.places.get(schema_id, ())
        ]

    def id_of(self, context: str, guid: bytes) -> int | None:
        ids = self._ids.get(context)
        return None if ids is None else ids.by_guid.get(guid)

    def max_id(self, context: str) -> int:
        ids = self._ids.get(context)
        return 0 if ids is None else ids.max_id

    def max_ids(self) -> dict[str, int]:
        return {context: ids.max_id for context, ids in self._ids.items()}

    def contexts(self) -> list[str]:
        """Returns the default context and all others, in order."""
        return [DEFAULT_CONTEXT, *sorted(self._contexts)]

    def referrers(self, subject: str, number: int) -> list[Version]:
        """Returns the versions that refer to a version."""
        found = self._referrers.get((subject, number), ())
        return [self._subjects[name][version] for name, version in found]

    def config(self, subject: str | None) -> Json | None:
        """Returns the configuration that was set for exactly this subject."""
        return self._configs.get(subject)

    def config_in_scope(self, subject: str | None) -> Json:
        """Returns the configuration that holds for a subject: its own, else that of its context,
        else the global one. A member that it lacks is taken from the global one."""
        default: Json = {"compatibilityLevel": self._default_level}
        top = default | self._configs.get(GLOBAL_SUBJECT, {}) | self._configs.get(None, {})
        if subject is None:
            return top
        for name in self._scopes(subject):
            own = self._configs.get(name)
            if own is not None:
                return top | own
        context = qualified(subject).context
        if context != DEFAULT_CONTEXT:
            # Another context does not have the settings of the default one.
            return default | self._configs.get(GLOBAL_SUBJECT, {})
        return top

    def validates_fields(self, subject: str) -> bool:
        """Returns whether the fields of a new schema are checked against those it reserves."""
        return self._validates(subject, "validateFields")

    def validates_new_schemas(self, subject: str) -> bool:
        """Returns whether a new schema is checked for what older registries let pass."""
        return self._validates(subject, "validateNewSchemas")

    def _validates(self, subject: str, member: str) -> bool:
        asked = self.config_in_scope(subject).get(member)
        return asked if isinstance(asked, bool) else self._validations[member]

    def mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject)

    def modes_below(self, prefix: str) -> list[str]:
        """Returns the subjects of a context that have a mode of their own."""
        return [name for name in self._modes if name is not None and is_within(name, prefix)]

    def mode_in_scope(self, subject: str | None) -> str:
        """Returns the mode that holds for a subject: its own, else that of its context, else the
        global one. READONLY_OVERRIDE as the global mode holds for every subject."""
        if self._modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        for name in (*self._scopes(subject), None) if subject is not None else (None,):
            found = self._modes.get(name)
            in_other = subject is not None and qualified(subject).context != DEFAULT_CONTEXT
            if found is not None and not (name is None and in_other):
                return found
        return self._modes.get(GLOBAL_SUBJECT, self._default_mode)

    @staticmethod
    def _scopes(subject: str) -> Iterable[str]:
        context = qualified(subject).context
        return (subject,) if context == DEFAULT_CONTEXT else (subject, f":{context}:")

    def aliases(self) -> dict[str, str]:
        """Returns the subjects that stand for others."""
        return {
            subject: str(config["alias"])
            for subject, config in self._configs.items()
            if subject is not None and config.get("alias")
        }

    def counts(self) -> dict[str, int]:
        """Returns how much there is, for the metrics."""
        live = sum(1 for version in self.all_versions() if not version.deleted)
        total = sum(len(versions) for versions in self._subjects.values())
        return {
            "subjects": len(self._subjects),
            "versions": live,
            "deleted_versions": total - live,
            "schemas": sum(len(ids.places) for ids in self._ids.values()),
        }


def _check_config(config: Json | None) -> None:
    """Raises `BadRecord` for a configuration that requests could not use."""
    if config is None:
        return
    level, alias = config.get("compatibilityLevel"), config.get("alias")
    if level is not None and level not in Level.__members__:
        raise BadRecord("its compatibilityLevel is unknown")
    if not isinstance(alias, str | None):
        raise BadRecord("its alias is not text")
    for member in ("defaultMetadata", "overrideMetadata"):
        try:
            check_metadata(config.get(member))
        except Refused as error:
            raise BadRecord(error.message) from None
    for member in ("defaultRuleSet", "overrideRuleSet"):
        rule_set = config.get(member)
        if rule_set is not None and not has_known_shape(rule_set):
            raise BadRecord(f"its {member} has a shape that is unknown")


def is_within(subject: str, scope: str) -> bool:
    """Returns whether a subject is the one that is named, or in the context that is."""
    named = qualified(scope)
    if named.subject:
        return subject == scope
    return qualified(subject).context == named.context


def guid_bytes(version: Version) -> bytes:
    return hash_of(version.schema, version.references, version.metadata, version.rule_set)


def guid(version: Version) -> str:
    """Returns the id that a schema has in every registry, as Confluent's registry makes it."""
    return str(uuid.UUID(bytes=guid_bytes(version)))


def hash_of(
    schema: str, references: Iterable[Reference], metadata: Json | None, rule_set: Json | None
) -> bytes:
    """Returns the MD5 of everything that makes a schema what it is."""
    digest = hashlib.md5(schema.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode())
        digest.update(reference.subject.encode())
        digest.update(reference.version.to_bytes(4, "big", signed=True))
    if metadata is not None:
        digest.update(b"\1")
        for member in ("tags", "properties"):
            for name, value in sorted((metadata.get(member) or {}).items()):
                digest.update(str(name).encode())
                for part in value if isinstance(value, list) else [value]:
                    digest.update(str(part).encode())
        for name in sorted(metadata.get("sensitive") or ()):
            digest.update(str(name).encode())
    if rule_set is not None:
        digest.update(b"\1")
        for member in ("migrationRules", "domainRules", "encodingRules"):
            for rule in rule_set.get(member) or ():
                _hash_rule(digest, rule)
        digest.update(str(rule_set.get("enableAt") or "").encode())
    return digest.digest()


def _hash_rule(digest: "hashlib._Hash", rule: Json) -> None:
    for member in ("name", "doc", "kind", "mode", "type"):
        digest.update(str(rule.get(member) or "").encode())
    for tag in sorted(rule.get("tags") or ()):
        digest.update(str(tag).encode())
    for name, value in sorted((rule.get("params") or {}).items()):
        digest.update(str(name).encode())
        digest.update(str(value).encode())
    for member in ("expr", "onSuccess", "onFailure"):
        digest.update(str(rule.get(member) or "").encode())
    if rule.get("disabled"):
        digest.update(b"\1")
