"""The actions of `odradek schema`, after its flags are parsed."""

import argparse
import json
import os
from collections.abc import Callable
from typing import Final, cast

from odradek.schemas.errors import NotRegistered, SchemaError
from odradek.schemas.parsed import SCHEMA_TYPES, Reference, SchemaType
from odradek.schemas.registry_client import Registered, RegistryClient
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import read_text
from odradek.tools.registry_session import open_registry, reported
from odradek.wording import counted

_SUFFIXES: Final[dict[str, SchemaType]] = {
    ".avsc": "AVRO",
    ".avro": "AVRO",
    ".json": "JSON",
    ".jsonschema": "JSON",
    ".proto": "PROTOBUF",
}
LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


def run(arguments: argparse.Namespace) -> int:
    try:
        if arguments.action == "diff":
            from odradek.cli.schemas.schema_diff import diff

            return diff(arguments)
        with open_registry(arguments) as client:
            return _ACTIONS[arguments.action](client, arguments)
    except SchemaError as error:
        raise reported(error) from None


def kind_of_file(path: str, given: str | None) -> SchemaType:
    """Returns the format of a schema in a file."""
    if given is not None:
        return cast("SchemaType", given)
    kind = _SUFFIXES.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise UsageError(f"{path}: say which format it has with --type {'|'.join(SCHEMA_TYPES)}")
    return kind


def _list(client: RegistryClient, arguments: argparse.Namespace) -> int:
    deleted = arguments.deleted
    if arguments.words:
        versions = client.versions(arguments.words[0], deleted=deleted)
        print(json.dumps(versions) if arguments.json else "\n".join(map(str, versions)))
        return 0
    subjects = sorted(client.subjects(deleted=deleted))
    if arguments.json:
        print(json.dumps(subjects))
        return 0
    width = max(map(len, subjects), default=0)
    for subject in subjects:
        try:
            newest = client.latest(subject)
        except NotRegistered:
            print(f"{subject:<{width}}  deleted")
            continue
        print(f"{subject:<{width}}  version {newest.version}  {newest.schema.kind}  id {newest.id}")
    return 0


def _get(client: RegistryClient, arguments: argparse.Namespace) -> int:
    if arguments.id is not None:
        schema = client.by_id(arguments.id)
        found = Registered(arguments.id, schema)
    else:
        found = version_of(client, arguments.words[0], arguments.version)
    if arguments.json:
        print(json.dumps(_as_json(found)))
    else:
        print(_readable(found))
    return 0


def version_of(client: RegistryClient, subject: str, version: int | None) -> Registered:
    return client.latest(subject) if version is None else client.version(subject, version)


def _as_json(found: Registered) -> dict[str, object]:
    named = {"subject": found.subject, "version": found.version} if found.subject else {}
    return {
        **named,
        "id": found.id,
        "schemaType": found.schema.kind,
        "schema": found.schema.text,
        "references": [reference._asdict() for reference in found.references],
    }


def _readable(found: Registered) -> str:
    """Returns the text of a schema in lines that can be read."""
    if found.schema.kind == "PROTOBUF":
        return found.schema.text
    try:
        return json.dumps(json.loads(found.schema.text), indent=2, ensure_ascii=False)
    except ValueError:
        return found.schema.text


def _references(arguments: argparse.Namespace) -> tuple[Reference, ...]:
    found = []
    for name, text in arguments.reference:
        subject, colon, version = text.rpartition(":")
        if not colon or not version.isdecimal():
            raise UsageError(f"--reference {name}={text} must be like NAME=SUBJECT:VERSION")
        found.append(Reference(name, subject, int(version)))
    return tuple(found)


def _register(client: RegistryClient, arguments: argparse.Namespace) -> int:
    subject, path = arguments.words
    text, kind = read_schema(path), kind_of_file(path, arguments.type)
    references = _references(arguments)
    schema_id = client.register(subject, kind, text, references, normalize=arguments.normalize)
    found = client.lookup(subject, kind, text, references, normalize=arguments.normalize)
    if arguments.json:
        print(json.dumps({"subject": subject, "version": found.version, "id": schema_id}))
    else:
        print(f"{subject} version {found.version} has id {schema_id}")
    return 0


def _check(client: RegistryClient, arguments: argparse.Namespace) -> int:
    subject, path = arguments.words
    text, kind = read_schema(path), kind_of_file(path, arguments.type)
    try:
        verdict = client.check(
            subject,
            kind,
            text,
            _references(arguments),
            version=arguments.version,
            normalize=arguments.normalize,
        )
    except NotRegistered:
        print(f"{subject} has no versions yet: any schema may be the first")
        return 0
    level = client.config(subject).get("compatibilityLevel", "?")
    if arguments.json:
        answer = {"compatible": verdict.is_compatible, "level": level}
        print(json.dumps({**answer, "messages": verdict.messages}))
    elif verdict.is_compatible:
        print(f"{path} may follow in {subject} (level {level})")
    else:
        print(f"{path} may not follow in {subject} (level {level}):")
        for message in verdict.messages:
            print(f"  {message}")
    return 0 if verdict.is_compatible else 1


def _delete(client: RegistryClient, arguments: argparse.Namespace) -> int:
    (subject,) = arguments.words
    permanent = arguments.permanent
    if arguments.version is not None:
        versions = [client.delete_version(subject, arguments.version, permanent=permanent)]
    else:
        versions = client.delete_subject(subject, permanent=permanent)
    if arguments.json:
        print(json.dumps(versions))
        return 0
    what = f"{counted(len(versions), 'version')} of {subject}"
    if permanent:
        print(f"deleted {what} for ever")
    else:
        print(f"deleted {what}; their ids still work, and --permanent deletes them for ever")
    return 0


def _compat(client: RegistryClient, arguments: argparse.Namespace) -> int:
    words = list(arguments.words)
    level = words.pop().upper() if words and words[-1].upper() in LEVELS else None
    if len(words) > 1:
        raise UsageError(f"{words[1]} is not a level: use one of {', '.join(LEVELS)}")
    subject = words[0] if words else None
    if arguments.reset:
        if level is not None:
            raise UsageError("give a level or --reset, not both")
        client.delete_config(subject)
    elif level is not None:
        client.set_config(subject, compatibility=level)
    found = str(client.config(subject).get("compatibilityLevel"))
    if arguments.json:
        print(json.dumps({"subject": subject, "compatibilityLevel": found}))
    else:
        print(f"{subject or 'the registry'}: {found}")
    return 0


_Action = Callable[[RegistryClient, argparse.Namespace], int]
_ACTIONS: Final[dict[str, _Action]] = {
    "list": _list,
    "get": _get,
    "register": _register,
    "check": _check,
    "delete": _delete,
    "compat": _compat,
}


def read_schema(path: str) -> str:
    """Reads a schema's text from a file."""
    text = read_text(path)
    if not text.strip():
        raise CommandFailed(f"{path} is empty")
    return text
