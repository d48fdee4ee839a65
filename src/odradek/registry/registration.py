"""Finds, checks and prepares schemas: what happens before the primary decides.

A schema that a client sends is completed (from the version before, and from defaults of the
configuration), printed in its canonical form, looked up, and compared with earlier versions. All of
this only reads, so every instance does it; the last word on a registration has the primary
(`decisions`), which checks that nothing has changed meanwhile.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from odradek.registry import errors
from odradek.registry.decisions import Register, check_may_register
from odradek.registry.formats import compiled, is_compiled
from odradek.registry.judging import Answer, Judge, Question, Source
from odradek.registry.names import DEFAULT_CONTEXT, Qualified, qualified, relative
from odradek.registry.records import Json, Reference, Version
from odradek.registry.state import RegistryState, hash_of
from odradek.schemas.inline_tags import SchemaTags

LATEST: Final = -1
MAX_SCHEMA_CHARACTERS: Final = 1_000_000
_MAX_DEPTH: Final = 50
_MAX_RESOLVED: Final = 1_000
CONFLUENT_VERSION: Final = "confluent:version"
_RESERVED: Final = "confluent:reserved"
_COMPLETING: Final = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")


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
    tags_to_add: tuple[SchemaTags, ...] = ()
    tags_to_remove: tuple[SchemaTags, ...] = ()
    keeps_tags: bool = False
    """Whether the inline tags of the version before are taken over."""
    is_forced: bool = False
    """Whether the schema is registered although it is incompatible with earlier ones."""
    is_checked: bool = True
    """Whether faults count that older registries let pass."""


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
            await self._canonical(candidate._replace(is_checked=False), normalize)
            return None
        versions = list(reversed(self._state.versions(candidate.subject, deleted=deleted)))
        found = await self._find(candidate, versions, normalize=normalize)
        if found is not None:
            return found
        # Registering takes metadata and rules from the version before and from the configuration.
        previous = self._state.version(candidate.subject, LATEST)
        if previous is None:
            return None
        config = self._state.config_in_scope(candidate.subject)
        filled = _filled(candidate, config, previous)
        if filled == candidate:
            return None
        return await self._find(filled, versions, normalize=normalize)

    async def _find(
        self, candidate: Candidate, versions: Sequence[Version], *, normalize: bool
    ) -> Version | None:
        """Returns which of the versions, the newest first, is this schema with these metadata and
        rules. That it was registered says enough: no fault is looked for."""
        canonical = await self._canonical(candidate._replace(is_checked=False), normalize)
        return self._same_text(canonical, versions) or await self._same_meaning(canonical, versions)

    async def reasons_against(
        self, candidate: Candidate, earlier: Sequence[Version], *, normalize: bool
    ) -> list[str]:
        """Returns why a schema may not follow these versions, the newest first."""
        config = self._state.config_in_scope(candidate.subject)
        if not (candidate.schema or "").strip():
            raise errors.invalid_schema("the schema is empty")
        _check_size(candidate)
        is_checked = self._state.validates_new_schemas(candidate.subject)
        candidate = candidate._replace(is_checked=is_checked)
        return await self._reasons(candidate, earlier, config, normalize=normalize)

    async def prepare(self, candidate: Candidate, *, normalize: bool) -> Register | Version:
        """Returns the command that registers a schema, or the version that it has already."""
        subject, state = candidate.subject, self._state
        stamp = state.stamp(subject)
        config = state.config_in_scope(subject)
        is_import = state.mode_in_scope(subject) == "IMPORT"
        # What is imported stays as it was in the other registry.
        normalize = normalize and not is_import
        versions = list(reversed(state.versions(subject)))
        known = await self._known(candidate, config, versions, normalize=normalize)
        if known is not None:
            return known
        check_may_register(state, subject, candidate.id)
        is_checked = candidate.id < 0 and state.validates_new_schemas(subject)
        completed = candidate._replace(is_checked=is_checked)
        if not is_import:
            completed = _completed(
                completed,
                config,
                versions[0] if versions else None,
                self._next_version(subject),
            )
        if not (completed.schema or "").strip():
            raise errors.invalid_schema("Empty schema")
        takes_over = completed.keeps_tags and versions and not is_import
        canonical = await self._canonical(
            completed, normalize, self.source_of(versions[0]) if takes_over else None
        )
        if candidate.version == 0:
            found = self._same_text(canonical, versions)
            if found is None and not is_import:
                found = await self._same_meaning(canonical, versions)
            if found is not None and candidate.id in {-1, found.id}:
                return found
        if not is_import:
            if candidate.version > 0 and candidate.version != self._next_version(subject):
                raise errors.invalid_schema("Version is not one more than previous version")
            reasons = await self._reasons(canonical, versions, config, normalize=False)
            if reasons and not candidate.is_forced:
                raise errors.incompatible(subject, f"[{', '.join(reasons)}]")
        return Register(
            subject, canonical.schema or "", canonical.schema_type, canonical.references,
            canonical.metadata, canonical.rule_set, candidate.id, max(0, candidate.version), stamp,
        )  # fmt: skip

    async def _known(
        self, candidate: Candidate, config: Json, versions: Sequence[Version], *, normalize: bool
    ) -> Version | None:
        """Returns the version that a subject has already as the client sends it. It comes before
        the mode: producers that register their schema when they start must not fail because the
        subject takes no new ones."""
        changes_tags = candidate.tags_to_add or candidate.tags_to_remove or candidate.keeps_tags
        if changes_tags or not versions or any(config.get(name) for name in _COMPLETING):
            return None
        if not (candidate.schema or "").strip():
            return None
        compared = versions[:1] if candidate.version == LATEST else versions
        found = await self._find(candidate, compared, normalize=normalize)
        if found is None or candidate.id not in {-1, found.id}:
            return None
        if candidate.version in {0, LATEST}:
            return found
        if candidate.id < 0:
            return None
        return next(
            (
                version
                for version in versions
                if version.id == found.id and version.version == candidate.version
            ),
            None,
        )

    def _next_version(self, subject: str) -> int:
        versions = self._state.versions(subject, deleted=True)
        return versions[-1].version + 1 if versions else 1

    # Parts

    async def _canonical(
        self, candidate: Candidate, normalize: bool, tags_from: Source | None = None
    ) -> Candidate:
        """Returns a candidate with its schema as it is stored, with the inline tags asked for."""
        _check_size(candidate)
        question = Question(
            self.source(candidate), normalize, added=candidate.tags_to_add,
            removed=candidate.tags_to_remove, tags_from=tags_from,
        )  # fmt: skip
        answer = await self._judge.ask(question)
        return candidate._replace(schema=answer.text, tags_to_add=(), tags_to_remove=())

    async def tags_of(self, version: Version, wanted: Sequence[str]) -> list[SchemaTags]:
        """Returns the places of a version that have one of these inline tags; `*` is any."""
        answer = await self._judge.ask(Question(self.source_of(version), lists_tags=True))
        return [tag for tag in answer.tags if "*" in wanted or not set(wanted).isdisjoint(tag.tags)]

    async def formatted(self, version: Version, format_: str) -> str:
        """Returns a version in a format that `odradek.registry.formats` describes."""
        source = self.source_of(version)
        if is_compiled(version.schema_type, format_):
            return await compiled(source)
        return (await self._judge.ask(Question(source, format=format_))).text

    def _same_text(self, canonical: Candidate, versions: Iterable[Version]) -> Version | None:
        context = qualified(canonical.subject).context
        guid = hash_of(
            canonical.schema or "", canonical.references, canonical.metadata, canonical.rule_set
        )
        known = self._state.id_of(context, guid)
        if known is None:
            return None
        return next((version for version in versions if version.id == known), None)

    async def _same_meaning(
        self, canonical: Candidate, versions: Sequence[Version]
    ) -> Version | None:
        """Returns the version that is the same schema in other words, with the same metadata."""
        compared = [
            version
            for version in versions
            if version.schema_type == canonical.schema_type
            and _has_metadata(version, canonical.metadata)
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
        validates = self._state.validates_fields(candidate.subject)
        reserved = _reserved(candidate.metadata)
        gone = _reserved(earlier[0].metadata) - reserved if earlier and validates else ()
        about_fields = [
            f"The new schema has reserved field {name} removed from its metadata which is present"
            " in the old schema's metadata."
            for name in sorted(gone)
        ]
        if group:
            own = _property(candidate.metadata, group)
            earlier = [one for one in earlier if _property(one.metadata, group) == own]
        question = Question(
            self.source(candidate),
            normalize,
            tuple(self.source_of(version) for version in earlier),
            level=level,
            reserved=tuple(sorted(reserved)) if validates else None,
        )
        answer: Answer = await self._judge.ask(question)
        reasons = [*about_fields, *answer.reasons]
        if answer.failed is not None:
            failed = earlier[answer.failed]
            reasons += [
                f"{{oldSchemaVersion: {failed.version}}}", f"{{oldSchema: '{failed.schema}'}}"
            ]  # fmt: skip
        if reasons:
            shown = "true" if validates else "false"
            reasons.append(f"{{validateFields: '{shown}', compatibility: '{level}'}}")
        return reasons

    # References

    def source_of(self, version: Version) -> Source:
        return self.source(
            Candidate(
                version.subject, version.schema, version.schema_type, version.references,
                is_checked=False,
            )
        )  # fmt: skip

    def source(self, candidate: Candidate) -> Source:
        """Returns a schema with all the texts that it refers to. A new schema may not refer to
        versions that are soft deleted."""
        resolved: dict[str, str] = {}
        deleted = not candidate.is_checked
        self._resolve(candidate.subject, candidate.references, resolved, (), deleted=deleted)
        return Source(
            candidate.schema_type, candidate.schema or "", candidate.references,
            tuple(resolved.items()), candidate.is_checked or candidate.schema_type != "AVRO",
        )  # fmt: skip

    def _resolve(
        self,
        subject: str,
        references: Sequence[Reference],
        resolved: dict[str, str],
        path: tuple[tuple[str, int], ...],
        *,
        deleted: bool,
    ) -> None:
        if len(path) > _MAX_DEPTH or len(resolved) > _MAX_RESOLVED:
            raise errors.invalid_schema("its references go too deep, or there are too many")
        for reference in references:
            if reference.name in resolved:
                continue
            target = relative(subject, reference.subject)
            version = self._state.version(target, reference.version, deleted=deleted)
            if version is None:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version'
                    f" {reference.version}"
                )
            place = (version.subject, version.version)
            if place in path:
                raise errors.invalid_schema(f"the reference {reference.name} leads back to itself")
            self._resolve(
                version.subject, version.references, resolved, (*path, place), deleted=deleted
            )
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
    candidate = _filled(candidate, config, previous)
    if candidate.version != 0 or _property(candidate.metadata, CONFLUENT_VERSION) is not None:
        number = {CONFLUENT_VERSION: str(next_version)}
        candidate = candidate._replace(metadata=_merged(candidate.metadata, {"properties": number}))
    return candidate


def _filled(candidate: Candidate, config: Json, previous: Version | None) -> Candidate:
    """Returns a candidate with the metadata and rules that it takes over."""
    metadata, rule_set = candidate.metadata, candidate.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = _merged(config.get("defaultMetadata"), metadata)
    metadata = _merged(metadata, config.get("overrideMetadata"))
    rule_set = merged_rules(config.get("defaultRuleSet"), rule_set)
    rule_set = merged_rules(rule_set, config.get("overrideRuleSet"))
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


def _reserved(metadata: Json | None) -> frozenset[str]:
    """Returns the names that metadata keep for later or for ever, separated by commas."""
    names = str(_property(metadata, _RESERVED) or "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def _property(metadata: Json | None, name: str) -> Any:
    return ((metadata or {}).get("properties") or {}).get(name)


def _has_metadata(version: Version, metadata: Json | None) -> bool:
    """Returns whether a version has these metadata. The number of the version, which registering
    adds to them, may be missing at one side; it must be right where the client says it."""
    asked, own = (_property(one, CONFLUENT_VERSION) for one in (metadata, version.metadata))
    if asked is not None and own is None and str(asked) != str(version.version):
        return False
    if (asked is None) != (own is None):
        return _without_number(metadata) == _without_number(version.metadata)
    return metadata == version.metadata


def _without_number(metadata: Json | None) -> Json:
    found = dict(metadata or {})
    properties = dict(found.get("properties") or {})
    properties.pop(CONFLUENT_VERSION, None)
    if properties:
        found["properties"] = properties
    else:
        found.pop("properties", None)
    return found
