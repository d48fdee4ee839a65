"""`odradek schema diff`: what an old and a new schema can read of each other, in words."""

import argparse
import json
import os
from difflib import unified_diff
from typing import NamedTuple

from odradek.cli.schemas.schema_actions import kind_of_file, read_schema, version_of
from odradek.schemas.compatibility import incompatibilities
from odradek.schemas.parsed import ParsedSchema, SchemaType, parse
from odradek.schemas.registry_client import Registered, RegistryClient
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.registry_session import open_registry


class _Side(NamedTuple):
    """One of two schemas, and how it is called."""

    name: str
    schema: ParsedSchema


def diff(arguments: argparse.Namespace) -> int:
    old, new = _sides(arguments)
    if old.schema.schema_type != new.schema.schema_type:
        raise CommandFailed(
            f"{old.name} is {old.schema.schema_type} and {new.name} is {new.schema.schema_type}:"
            " they cannot be compared"
        )
    backward = [
        incompatibility.sentence("new", "old")
        for incompatibility in incompatibilities(new.schema, old.schema)
    ]
    forward = [
        incompatibility.sentence("old", "new")
        for incompatibility in incompatibilities(old.schema, new.schema)
    ]
    if arguments.json:
        print(
            json.dumps(
                {
                    "old": old.name,
                    "new": new.name,
                    "same": old.schema.is_same(new.schema),
                    "backward": backward,
                    "forward": forward,
                }
            )
        )
        return 0
    for line in _changed_lines(old, new):
        print(line)
    if old.schema.is_same(new.schema):
        print(f"{old.name} and {new.name} are the same schema")
        return 0
    print(_verdict("the new schema", "what the old one wrote", "BACKWARD", backward))
    print(_verdict("the old schema", "what the new one writes", "FORWARD", forward))
    return 0


def _verdict(reader: str, data: str, level: str, reasons: list[str]) -> str:
    if not reasons:
        return f"{reader} reads {data} ({level} compatible)"
    lines = "".join(f"\n  {reason}" for reason in reasons)
    return f"{reader} cannot read all of {data} (not {level} compatible):{lines}"


def _sides(arguments: argparse.Namespace) -> tuple[_Side, _Side]:
    words = arguments.words
    if len(words) == 2 and all(os.path.exists(word) for word in words):
        if arguments.version is not None:
            raise UsageError("--version is a version of a subject, and two files are given")
        old, new = (_of_file(path, arguments.type) for path in words)
        return old, new
    with open_registry(arguments) as client:
        subject = words[0]
        if len(words) == 2:
            found = version_of(client, subject, arguments.version)
            return _of_registry(found), _of_file(words[1], arguments.type, found)
        return _last_two(client, subject, arguments.version)


def _last_two(client: RegistryClient, subject: str, version: int | None) -> tuple[_Side, _Side]:
    """Returns a version, by default the newest, and the one before it."""
    newest = version_of(client, subject, version)
    before = [number for number in client.versions(subject) if number < newest.version]
    if not before:
        raise CommandFailed(
            f"{subject} has no version before {newest.version}; give a file to compare with:"
            f" odradek schema diff {subject} FILE"
        )
    return _of_registry(client.version(subject, before[-1])), _of_registry(newest)


def _of_file(path: str, kind: str | None, like: Registered | None = None) -> _Side:
    """Reads a file. Schemas that it refers to are those of `like`, the version before it."""
    found: SchemaType = kind_of_file(path, kind)
    if like is not None:
        resolved = dict(like.schema.imports)
        return _Side(path, parse(found, read_schema(path), like.references, resolved))
    return _Side(path, parse(found, read_schema(path)))


def _of_registry(found: Registered) -> _Side:
    schema = found.schema
    parsed = parse(schema.kind, schema.text, found.references, dict(schema.imports))
    return _Side(f"{found.subject} version {found.version}", parsed)


def _changed_lines(old: _Side, new: _Side) -> list[str]:
    changes = unified_diff(_lines(old.schema), _lines(new.schema), old.name, new.name, n=2)
    return [line.rstrip("\n") for line in changes]


def _lines(schema: ParsedSchema) -> list[str]:
    text = schema.text
    if schema.schema_type != "PROTOBUF":
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text.splitlines()
