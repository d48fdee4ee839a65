"""`odradek schema`: the schemas of a registry, and Python classes of schemas."""

import argparse
from typing import Final

from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import key_and_value, positive_number
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.registry_session import DEFAULT_REGISTRY, VARIABLE

_EXAMPLES: Final = """\
examples:
  odradek schema list                              # subjects, with their newest versions
  odradek schema register clicks-value click.avsc
  odradek schema get clicks-value --version 1      # the newest without --version; or --id 7
  odradek schema check clicks-value new.avsc       # may it follow? exit code 1 if not
  odradek schema diff clicks-value new.avsc        # what each side can read, in words
  odradek schema diff old.avsc new.avsc            # two files, without a registry
  odradek schema compat clicks-value FULL          # set the level; without one, show it
  odradek schema delete clicks-value --version 1
  odradek schema generate click.avsc --out click.py            # dataclasses, without a registry
  odradek schema generate *.proto --style pydantic --out models/

The format follows from the end of the file's name (.avsc, .json, .proto), or from --type.
With generate, a .proto file finds its imports beside it and in --include; other schemas name what
they refer to with --reference NAME=FILE, and what a referenced schema needs itself comes before it.
"""
STYLES: Final = ("dataclass", "pydantic", "attrs")
# The words that each action takes, and what they are.
_WORDS: Final = {
    "list": ("[SUBJECT]", 0, 1),
    "get": ("[SUBJECT]", 0, 1),
    "register": ("SUBJECT FILE", 2, 2),
    "check": ("SUBJECT FILE", 2, 2),
    "delete": ("SUBJECT", 1, 1),
    "compat": ("[SUBJECT] [LEVEL]", 0, 2),
    "diff": ("SUBJECT FILE, SUBJECT, or OLD-FILE NEW-FILE", 1, 2),
    "generate": ("FILE...", 1, 10_000),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"odradek schema {'|'.join(_WORDS)} [SUBJECT] [FILE] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=tuple(_WORDS), help="what to do")
    parser.add_argument(
        "words", metavar="SUBJECT FILE", nargs="*", help="a subject, a file, a level; see below"
    )
    schema = parser.add_argument_group("which schema")
    schema.add_argument("--version", metavar="N", type=positive_number, help="this version")
    schema.add_argument("--id", metavar="N", type=positive_number, help="with get: by its id")
    schema.add_argument(
        "--type", choices=("AVRO", "JSON", "PROTOBUF"), type=str.upper, help="the format of a file"
    )
    schema.add_argument(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        type=key_and_value,
        action="append",
        default=[],
        help="with register and check: a schema that the file imports; with generate: NAME=FILE;"
        " may be repeated",
    )
    schema.add_argument(
        "--normalize", action="store_true", help="with register: the same for all ways to write it"
    )
    schema.add_argument("--deleted", action="store_true", help="with list: also deleted ones")
    schema.add_argument(
        "--permanent",
        action="store_true",
        help="with delete: for ever, after a delete without this flag",
    )
    schema.add_argument(
        "--reset", action="store_true", help="with compat: back to the level of the registry"
    )
    _add_class_arguments(parser)
    _add_registry_arguments(parser)
    add_json_argument(parser)


def _add_class_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("classes, with generate")
    group.add_argument("--style", choices=STYLES, help="what kind (default: dataclass)")
    group.add_argument(
        "--out", metavar="PATH", help="the module to write, or a directory (default: print it)"
    )
    group.add_argument(
        "--include",
        metavar="DIR",
        action="append",
        default=[],
        help="where .proto files find their imports; may be repeated",
    )


def _add_registry_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--registry",
        metavar="URL",
        help=f"the registry (default: ${VARIABLE}, schema.registry.url of the profile, or"
        f" {DEFAULT_REGISTRY})",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="a properties file with the registry's address and log-in",
    )
    group.add_argument(
        "--command-property",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="one such property, for example basic.auth.user.info=user:password; may be repeated",
    )
    group.add_argument(
        "--profile", metavar="NAME", help="a profile of ~/.config/odradek/config.toml"
    )


def check(arguments: argparse.Namespace) -> None:
    action, words = arguments.action, arguments.words
    names, least, most = _WORDS[action]
    if not least <= len(words) <= most:
        wrong = MissingFlag if len(words) < least else UsageError
        raise wrong(f"write: odradek schema {action} {names}")
    if action == "get" and (arguments.id is None) == (not words):
        raise MissingFlag("write: odradek schema get SUBJECT, or odradek schema get --id N")
    for flag, actions in (
        ("version", ("get", "delete", "check", "diff")),
        ("id", ("get",)),
        ("reference", ("register", "check", "generate")),
        ("normalize", ("register", "check")),
        ("deleted", ("list",)),
        ("permanent", ("delete",)),
        ("reset", ("compat",)),
        ("style", ("generate",)),
        ("out", ("generate",)),
        ("include", ("generate",)),
    ):
        if getattr(arguments, flag) and action not in actions:
            raise UsageError(f"--{flag} goes with odradek schema {' and '.join(actions)}")


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    if arguments.action == "generate":
        from odradek.cli.schemas import generate_actions

        return generate_actions.run(arguments)
    from odradek.cli.schemas import schema_actions

    return schema_actions.run(arguments)
