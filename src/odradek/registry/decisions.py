"""What a request that changes something writes, or why it is refused.

`decide` reads the state and changes nothing. It returns the records to write, all of them or none,
and the reply for when they are committed. The primary calls it for one command after the other;
`Batch` has what the commands before in the same transaction have been given and what is not in the
state yet. A command may share a batch only with commands about other subjects.

A registration was judged before it got here (`registration`): its schema is valid and compatible
with the versions there were. `stamp` says by which state; if that is not today's, `Stale` sends the
command back to be judged again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from odradek.registry import errors
from odradek.registry.names import (
    DEFAULT_CONTEXT,
    context_name,
    is_whole_context,
    qualified,
)
from odradek.registry.records import (
    Json,
    Reference,
    Version,
    clear_subject_key,
    config_key,
    context_key,
    delete_subject_key,
    encode,
    max_ids,
    mode_key,
    schema_key,
    written,
)
from odradek.registry.state import RegistryState, hash_of, is_within
from odradek.statemachine.machine import LogRecord

IMPORT = "IMPORT"
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", IMPORT)
_MAX_ID = 2**31 - 1


class Stale(Exception):
    """The state has changed since the command was judged."""


class Decided(NamedTuple):
    records: Sequence[LogRecord]
    reply: Any


@dataclass(slots=True)
class Batch:
    """What commands of the same transaction have been given."""

    ids: dict[tuple[str, bytes], int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    contexts: set[str] = field(default_factory=set)
    subjects: set[str] = field(default_factory=set)
    is_closed: bool = False
    """Whether it has a command that must be the only one."""

    def takes(self, command: "Command") -> bool:
        if self.is_closed:
            return False
        if not isinstance(command, Register):
            return not self.subjects
        return command.subject not in self.subjects

    def add(self, command: "Command") -> None:
        self.subjects.add(command.subject or "")
        self.is_closed = not isinstance(command, Register)


class Register(NamedTuple):
    """A new version of a subject. `id` -1: the registry gives one. `version` 0: the next one."""

    subject: str
    schema: str
    schema_type: str
    references: tuple[Reference, ...]
    metadata: Json | None
    rule_set: Json | None
    id: int
    version: int
    stamp: tuple[int, int]


class DeleteVersion(NamedTuple):
    subject: str
    version: int
    permanent: bool


class DeleteSubject(NamedTuple):
    subject: str
    permanent: bool


class SetConfig(NamedTuple):
    """`update` has the members to change; one that is None is removed."""

    subject: str | None
    update: Json


class DeleteConfig(NamedTuple):
    subject: str | None


class SetMode(NamedTuple):
    """`mode` None removes it."""

    subject: str | None
    mode: str | None
    force: bool


class DeleteMode(NamedTuple):
    subject: str | None
    recursive: bool


class DeleteContext(NamedTuple):
    subject: str
    """The context, as `:.ctx:`."""


Command = (
    Register | DeleteVersion | DeleteSubject | SetConfig | DeleteConfig | SetMode | DeleteMode
    | DeleteContext
)  # fmt: skip


def decide(
    state: RegistryState, batch: Batch, command: Command, *, may_change_modes: bool = True
) -> Decided:
    """Returns the records of a command and its reply. Raises `Refused` or `Stale`."""
    if isinstance(command, Register):
        return _register(state, batch, command)
    if isinstance(command, SetMode | DeleteMode) and not may_change_modes:
        raise errors.not_permitted("Mode changes are not allowed")
    return _DECISIONS[type(command)](state, command)


# Registering


def check_may_register(state: RegistryState, subject: str, given_id: int) -> None:
    """Refuses a registration that the mode of the subject does not allow."""
    mode = state.mode_in_scope(subject)
    context = qualified(subject).context
    if mode in {"READONLY", "READONLY_OVERRIDE"}:
        raise errors.not_permitted(f"Subject {subject} in context {context} is in read-only mode")
    if given_id >= 0 and mode != IMPORT:
        raise errors.not_permitted(f"Subject {subject} in context {context} is not in import mode")
    if given_id < 0 and mode != "READWRITE":
        raise errors.not_permitted(
            f"Subject {subject} in context {context} is not in read-write mode"
        )


def _register(state: RegistryState, batch: Batch, command: Register) -> Decided:
    subject = command.subject
    check_may_register(state, subject, command.id)
    if state.stamp(subject) != command.stamp:
        raise Stale
    context = qualified(subject).context
    guid = hash_of(command.schema, command.references, command.metadata, command.rule_set)
    known = batch.ids.get((context, guid)) or state.id_of(context, guid)
    versions = state.versions(subject, deleted=True)
    if command.version == 0:
        for version in versions:
            if version.id == known and not version.deleted and command.id in {-1, known}:
                return Decided((), version)
    schema_id = _id_for(state, batch, command, known)
    number = max((version.version for version in versions), default=0) + 1
    if command.version > 0:
        number = command.version
    records = []
    if context != DEFAULT_CONTEXT and context not in {*state.contexts(), *batch.contexts}:
        batch.contexts.add(context)
        value = encode({"tenant": "default", "context": context})
        records.append(LogRecord(context_key(context), value))
    for version in versions:
        # The same schema comes back: its deleted version goes, unless something refers to it.
        is_older = version.deleted and version.id == schema_id and version.version < number
        if is_older and not state.referrers(subject, version.version):
            records.append(LogRecord(schema_key(subject, version.version), None))
    new = Version(
        subject, number, schema_id, command.schema, command.schema_type, command.references,
        command.metadata, command.rule_set,
    )  # fmt: skip
    records.append(written(new))
    batch.ids[context, guid] = schema_id
    batch.highest[context] = max(batch.highest.get(context, 0), schema_id)
    return Decided(records, new)


def _id_for(state: RegistryState, batch: Batch, command: Register, known: int | None) -> int:
    context = qualified(command.subject).context
    if command.id >= 0:
        for version in state.places(context, command.id):
            if version.schema != command.schema:
                raise errors.not_permitted(
                    f"Overwrite new schema with id {command.id} in context {context} is not"
                    " permitted."
                )
        return command.id
    if known is not None:
        return known
    next_id = max(state.max_id(context), batch.highest.get(context, 0)) + 1
    if next_id > _MAX_ID:
        raise errors.store_failed(f"all ids of context {context} have been given")
    return next_id


# Deleting


def _check_writable(state: RegistryState, subject: str | None) -> None:
    if state.mode_in_scope(subject) in {"READONLY", "READONLY_OVERRIDE"}:
        context = qualified(subject or "").context
        raise errors.not_permitted(f"Subject {subject} in context {context} is in read-only mode")


def _is_referred_to(
    state: RegistryState, subject: str, number: int, *, deleted: bool, others_only: bool = False
) -> bool:
    return any(
        (deleted or not referrer.deleted) and not (others_only and referrer.subject == subject)
        for referrer in state.referrers(subject, number)
    )


def _delete_version(state: RegistryState, command: DeleteVersion) -> Decided:
    subject = command.subject
    if not state.has_subject(subject, deleted=True):
        raise errors.subject_not_found(subject)
    version = state.version(subject, command.version, deleted=True)
    if version is None:
        raise errors.version_not_found(command.version)
    if version.deleted and not command.permanent:
        raise errors.version_soft_deleted(subject, version.version)
    _check_writable(state, subject)
    if _is_referred_to(state, subject, version.version, deleted=command.permanent):
        raise errors.reference_exists(subject, version.version)
    if not command.permanent:
        deleted = msgspec.structs.replace(version, deleted=True)
        return Decided([written(deleted)], version.version)
    if not version.deleted:
        raise errors.version_not_soft_deleted(subject, version.version)
    records = [LogRecord(schema_key(subject, version.version), None)]
    if len(state.versions(subject, deleted=True)) == 1:
        records += _settings_of(state, subject)
    return Decided([*records, max_ids(state.max_ids())], version.version)


def _delete_subject(state: RegistryState, command: DeleteSubject) -> Decided:
    subject = command.subject
    if not state.has_subject(subject, deleted=True):
        raise errors.subject_not_found(subject)
    if not command.permanent and not state.has_subject(subject):
        raise errors.subject_soft_deleted(subject)
    _check_writable(state, subject)
    versions = state.versions(subject, deleted=command.permanent)
    for version in versions:
        number = version.version
        if _is_referred_to(state, subject, number, deleted=command.permanent, others_only=True):
            raise errors.reference_exists(subject, number)
        if command.permanent and not version.deleted:
            raise errors.subject_not_soft_deleted(subject)
    numbers = [version.version for version in versions]
    if not command.permanent:
        value = encode({"subject": subject, "version": numbers[-1]})
        return Decided([LogRecord(delete_subject_key(subject), value)], numbers)
    records = [LogRecord(schema_key(subject, number), None) for number in reversed(numbers)]
    records += _settings_of(state, subject)
    return Decided([*records, max_ids(state.max_ids())], numbers)


def _settings_of(state: RegistryState, subject: str) -> list[LogRecord]:
    """Returns records that remove what was set for a subject that is gone."""
    records = []
    if state.mode(subject) is not None:
        records.append(LogRecord(mode_key(subject), None))
    if state.config(subject) is not None:
        records.append(LogRecord(config_key(subject), None))
    return records


def _delete_context(state: RegistryState, command: DeleteContext) -> Decided:
    context = context_name(command.subject)
    if context not in state.contexts():
        raise errors.Refused(40401, f"Context '{context}' not found.")
    if any(is_within(version.subject, f":{context}:") for version in state.all_versions()):
        raise errors.context_not_empty(command.subject)
    return Decided([LogRecord(context_key(context), None)], None)


# Settings


def _set_config(state: RegistryState, command: SetConfig) -> Decided:
    _check_writable(state, command.subject)
    config = {
        name: value
        for name, value in ((state.config(command.subject) or {}) | command.update).items()
        if value is not None
    }
    if command.subject is not None:
        config = {"subject": command.subject} | config
    return Decided([LogRecord(config_key(command.subject), encode(config))], config)


def _delete_config(state: RegistryState, command: DeleteConfig) -> Decided:
    old = state.config(command.subject)
    if old is None and command.subject is not None:
        raise errors.subject_not_found(command.subject)
    _check_writable(state, command.subject)
    gone = [] if old is None else [LogRecord(config_key(command.subject), None)]
    return Decided(gone, old)


def _set_mode(state: RegistryState, command: SetMode) -> Decided:
    subject, mode = command.subject, command.mode
    records: list[LogRecord] = []
    if mode == IMPORT and state.mode_in_scope(subject) != IMPORT and not command.force:
        records = _empty(state, subject)
    value = None
    if mode is not None:
        value = encode(({"subject": subject} if subject is not None else {}) | {"mode": mode})
    return Decided([*records, LogRecord(mode_key(subject), value)], mode)


def _empty(state: RegistryState, subject: str | None) -> list[LogRecord]:
    """Returns records that remove the deleted versions of what is going to be imported, because
    their ids would be in the way. Refuses if there are others."""
    inside = [
        version
        for version in state.all_versions()
        if subject is None or is_within(version.subject, subject)
    ]
    if any(not version.deleted for version in inside):
        raise errors.not_permitted("Cannot import since found existing subjects")
    for version in inside:
        if _is_referred_to(state, version.subject, version.version, deleted=True):
            raise errors.reference_exists(version.subject, version.version)
    if not inside:
        return []
    value = encode({"subject": subject} if subject is not None else {})
    return [
        *(LogRecord(schema_key(version.subject, version.version), None) for version in inside),
        LogRecord(clear_subject_key(subject), value),
        max_ids(state.max_ids()),
    ]


def _delete_mode(state: RegistryState, command: DeleteMode) -> Decided:
    subject = command.subject
    old = state.mode(subject)
    if old is None and not command.recursive and subject is not None:
        raise errors.subject_not_found(subject)
    names: list[str | None] = [] if old is None else [subject]
    if command.recursive:
        scope = ":.:" if subject is None else subject
        if subject is None or is_whole_context(subject):
            names += [name for name in state.modes_below(scope) if name != subject]
    return Decided([LogRecord(mode_key(name), None) for name in names], old)


_DECISIONS: dict[type, Callable[[RegistryState, Any], Decided]] = {
    DeleteVersion: _delete_version,
    DeleteSubject: _delete_subject,
    SetConfig: _set_config,
    DeleteConfig: _delete_config,
    SetMode: _set_mode,
    DeleteMode: _delete_mode,
    DeleteContext: _delete_context,
}
