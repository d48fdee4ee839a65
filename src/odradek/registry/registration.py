"""Finds, checks and prepares schemas: what happens before the primary decides.

A schema that a client sends is completed (from the version before, and from defaults of the
configuration), printed in its canonical form, looked up, and compared with earlier versions. All of
this only reads, so every instance does it; the last word on a registration has the primary
(`decisions`), which checks that nothing has changed meanwhile.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from odradek.registry import errors
from odradek.registry.decisions import Register, check_may_register
from odradek.registry.judging import Answer, Judge, Question, Source
from odradek.registry.names import DEFAULT_CONTEXT, Qualified, qualified, relative
from odradek.registry.records import Json, Reference, Version
from odradek.registry.state import RegistryState, hash_of

LATEST: Final = -1
MAX_SCHEMA_CHARACTERS: Final = 1_000_000
_MAX_DEPTH: Final = 50
_MAX_RESOLVED: Final = 1_000
CONFLUENT_VERSION: Final = "confluent:version"


class Candidate(NamedTuple):
    """A schema as a client sends it."""

    subject: str
    schema: str | None
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int = -1
    version: int = 0


class Registration:
    def __init__(self, state: RegistryState, judge: Judge) -> None:
        self._state = state
        self._judge = judge

    # What clients ask

    async def look_up(
        self, candidate: Candidate, *, normalize: bool, deleted: bool = False
    ) -> Version | None:
        """Returns the version of the subject that is this schema. A subject without a context is
        looked for in all of them."""
        found = await self._look_up(candidate, normalize=normalize, deleted=deleted)
        name = qualified(candidate.subject)
        if found is not None or name.context != DEFAULT_CONTEXT:
            return found
        for context in self._state.contexts()[1:]:
            subject = str(Qualified(context, name.subject))
            if not self._state.has_subject(subject, deleted=deleted):
                continue
            other = candidate._replace(subject=subject)
            found = await self._look_up(other, normalize=normalize, deleted=deleted)
            if found is not None:
                return found
        return None

    async def _look_up(
        self, candidate: Candidate, *, normalize: bool, deleted: bool
    ) -> Version | None:
        if not self._state.has_subject(candidate.subject, deleted=deleted):
            # Nothing can be found, but a schema that is none is told of.
            await self._canonical(candidate, normalize)
            return None
        canonical = await self._canonical(candidate, normalize)
        found = self._same_text(canonical, deleted=deleted)
        if found is not None:
            return found
        versions = list(reversed(self._state.versions(candidate.subject, deleted=deleted)))
        if candidate.metadata is None and candidate.rule_set is None and versions:
            # A version has metadata that registering had taken from the version before.
            previous = versions[0]
            inherited = canonical._replace(metadata=previous.metadata, rule_set=previous.rule_set)
            found = self._same_text(inherited, deleted=deleted)
            if found is not None:
                return found
        return await self._same_meaning(canonical, versions)

    async def reasons_against(
        self, candidate: Candidate, earlier: Sequence[Version], *, normalize: bool
    ) -> list[str]:
        """Returns why a schema may not follow these versions, the newest first."""
        config = self._state.config_in_scope(candidate.subject)
        if not (candidate.schema or "").strip():
            raise errors.invalid_schema("the schema is empty")
        _check_size(candidate)
        return await self._reasons(candidate, earlier, config, normalize=normalize)

    async def prepare(self, candidate: Candidate, *, normalize: bool) -> Register | Version:
        """Returns the command that registers a schema, or the version that it has already."""
        subject, state = candidate.subject, self._state
        check_may_register(state, subject, candidate.id)
        stamp = state.stamp(subject)
        config = state.config_in_scope(subject)
        is_import = state.mode_in_scope(subject) == "IMPORT"
        versions = list(reversed(state.versions(subject)))
        completed = candidate
        if not is_import:
            completed = _completed(candidate, config, versions[0] if versions else None,
                                   self._next_version(subject))  # fmt: skip
        if not (completed.schema or "").strip():
            raise errors.invalid_schema("Empty schema")
        canonical = await self._canonical(completed, normalize)
        if candidate.version in {0, LATEST}:
            found = self._same_text(canonical, deleted=False)
            if found is None and not is_import:
                found = await self._same_meaning(canonical, versions)
            if found is not None and candidate.id in {-1, found.id}:
                return found
        if not is_import:
            if candidate.version > 0 and candidate.version != self._next_version(subject):
                raise errors.invalid_schema("Version is not one more than previous version")
            reasons = await self._reasons(canonical, versions, config, normalize=False)
            if reasons:
                raise errors.incompatible(subject, f"[{', '.join(reasons)}]")
        return Register(
            subject, canonical.schema or "", canonical.schema_type, canonical.references,
            canonical.metadata, canonical.rule_set, candidate.id, max(0, candidate.version), stamp,
        )  # fmt: skip

    def _next_version(self, subject: str) -> int:
        versions = self._state.versions(subject, deleted=True)
        return versions[-1].version + 1 if versions else 1

    # Parts

    async def _canonical(self, candidate: Candidate, normalize: bool) -> Candidate:
        _check_size(candidate)
        question = Question(self.source(candidate), normalize)
        answer = await self._judge.ask(question)
        return candidate._replace(schema=answer.text)

    def _same_text(self, canonical: Candidate, *, deleted: bool) -> Version | None:
        context = qualified(canonical.subject).context
        guid = hash_of(
            canonical.schema or "", canonical.references, canonical.metadata, canonical.rule_set
        )
        known = self._state.id_of(context, guid)
        if known is None:
            return None
        for version in reversed(self._state.versions(canonical.subject, deleted=deleted)):
            if version.id == known:
                return version
        return None

    async def _same_meaning(
        self, canonical: Candidate, versions: Sequence[Version]
    ) -> Version | None:
        """Returns the version that is the same schema in other words, with the same metadata."""
        compared = [
            version
            for version in versions
            if version.schema_type == canonical.schema_type
            and _comparable(version.metadata) == _comparable(canonical.metadata)
            and version.rule_set == canonical.rule_set
        ]
        if not compared:
            return None
        question = Question(
            self.source(canonical),
            earlier=tuple(self.source_of(version) for version in compared),
            find_same=True,
        )
        answer = await self._judge.ask(question)
        return None if answer.same is None else compared[answer.same]

    async def _reasons(
        self, candidate: Candidate, earlier: Sequence[Version], config: Json, *, normalize: bool
    ) -> list[str]:
        level = str(config["compatibilityLevel"])
        group = config.get("compatibilityGroup")
        if group:
            own = _property(candidate.metadata, group)
            earlier = [one for one in earlier if _property(one.metadata, group) == own]
        question = Question(
            self.source(candidate),
            normalize,
            tuple(self.source_of(version) for version in earlier),
            level=level,
        )
        answer: Answer = await self._judge.ask(question)
        if answer.failed is None:
            return []
        failed = earlier[answer.failed]
        return [
            *answer.reasons,
            f"{{oldSchemaVersion: {failed.version}}}",
            f"{{oldSchema: '{failed.schema}'}}",
            f"{{validateFields: 'false', compatibility: '{level}'}}",
        ]

    # References

    def source_of(self, version: Version) -> Source:
        return self.source(
            Candidate(version.subject, version.schema, version.schema_type, version.references)
        )

    def source(self, candidate: Candidate) -> Source:
        """Returns a schema with all the texts that it refers to."""
        resolved: dict[str, str] = {}
        self._resolve(candidate.subject, candidate.references, resolved, ())
        return Source(
            candidate.schema_type, candidate.schema or "", candidate.references,
            tuple(resolved.items()),
        )  # fmt: skip

    def _resolve(
        self,
        subject: str,
        references: Sequence[Reference],
        resolved: dict[str, str],
        path: tuple[tuple[str, int], ...],
    ) -> None:
        if len(path) > _MAX_DEPTH or len(resolved) > _MAX_RESOLVED:
            raise errors.invalid_schema("its references go too deep, or there are too many")
        for reference in references:
            if reference.name in resolved:
                continue
            target = relative(subject, reference.subject)
            version = self._state.version(target, reference.version, deleted=True)
            if version is None:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version'
                    f" {reference.version}"
                )
            place = (version.subject, version.version)
            if place in path:
                raise errors.invalid_schema(f"the reference {reference.name} leads back to itself")
            self._resolve(version.subject, version.references, resolved, (*path, place))
            resolved[reference.name] = version.schema


def _check_size(candidate: Candidate) -> None:
    """Refuses what would not fit into a record, before it is parsed."""
    if len(candidate.schema or "") > MAX_SCHEMA_CHARACTERS:
        raise errors.schema_too_large()


def with_versions(
    state: RegistryState, subject: str, references: Sequence[Reference]
) -> tuple[Reference, ...]:
    """Returns references to definite versions: -1 is the newest one now."""
    return tuple(_definite(state, subject, reference) for reference in references)


def _definite(state: RegistryState, subject: str, reference: Reference) -> Reference:
    if reference.version != LATEST:
        return reference
    version = state.version(relative(subject, reference.subject), LATEST)
    if version is None:
        return reference
    return msgspec.structs.replace(reference, version=version.version)


def _completed(
    candidate: Candidate, config: Json, previous: Version | None, next_version: int
) -> Candidate:
    """Returns a candidate with what it takes over: an empty schema, metadata and rules are those
    of the version before, and the configuration has defaults and overrides."""
    if not (candidate.schema or "").strip() and previous is not None:
        candidate = candidate._replace(
            schema=previous.schema,
            schema_type=previous.schema_type,
            references=previous.references,
        )
    metadata = candidate.metadata
    rule_set = candidate.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = _merged(config.get("defaultMetadata"), metadata)
    metadata = _merged(metadata, config.get("overrideMetadata"))
    rule_set = merged_rules(config.get("defaultRuleSet"), rule_set)
    rule_set = merged_rules(rule_set, config.get("overrideRuleSet"))
    if candidate.version != 0 or _property(metadata, CONFLUENT_VERSION) is not None:
        number = {CONFLUENT_VERSION: str(next_version)}
        metadata = _merged(metadata, {"properties": number})
    return candidate._replace(metadata=metadata, rule_set=rule_set)


def _merged(below: Json | None, above: Json | None) -> Json | None:
    if below is None or above is None:
        return below if above is None else above
    merged = dict(below)
    for member, value in above.items():
        old = below.get(member)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[member] = old | value
        elif isinstance(value, list) and isinstance(old, list):
            merged[member] = [*old, *(one for one in value if one not in old)]
        elif value is not None:
            merged[member] = value
    return merged


def merged_rules(below: Json | None, above: Json | None) -> Json | None:
    if below is None or above is None:
        return below if above is None else above
    merged = dict(below)
    for member, rules in above.items():
        if isinstance(rules, list):
            names = {rule.get("name") for rule in rules}
            kept = [rule for rule in below.get(member) or () if rule.get("name") not in names]
            merged[member] = [*kept, *rules]
        elif rules is not None:
            merged[member] = rules
    return merged


def _property(metadata: Json | None, name: str) -> Any:
    return ((metadata or {}).get("properties") or {}).get(name)


def _comparable(metadata: Json | None) -> Json:
    """Returns metadata without the version number that registering adds."""
    found = dict(metadata or {})
    properties = dict(found.get("properties") or {})
    properties.pop(CONFLUENT_VERSION, None)
    if properties:
        found["properties"] = properties
    else:
        found.pop("properties", None)
    return found
