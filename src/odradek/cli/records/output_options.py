"""The flags of `odradek get` and `odradek console-consumer` that say how records are printed."""

import argparse
from typing import TYPE_CHECKING

from odradek.cli.parser import key_and_value
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import UsageError

if TYPE_CHECKING:
    from odradek.cli.records.record_formatter import JsonFormatter, RecordFormatter

# The flags that choose what is printed of a record, and how. A command need not have all of them.
_FORMATTER_FLAGS = (
    "formatter_property",
    "formatter_config",
    "key_deserializer",
    "value_deserializer",
)


def add_output_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Returns the group of the flags, to which a command adds its own."""
    output = parser.add_argument_group("what to print")
    output.add_argument(
        "--formatter-property",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="what to print of a record, see below; may be repeated; not with --json",
    )
    for kind in ("key", "value"):
        output.add_argument(
            f"--{kind}-deserializer", metavar="CLASS", help=f"how to read {kind}s; not with --json"
        )
    output.add_argument(
        "--json", action="store_true", help="print each record as a line of JSON, for programs"
    )
    return output


def refuse_with_json(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if --json is given together with a flag that it would ignore."""
    if not arguments.json:
        return
    for name in _FORMATTER_FLAGS:
        if getattr(arguments, name, None):
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"--json and {flag} cannot be used together: --json prints every field of a record,"
                " keys and values as text or base64"
            )


def make_formatter(arguments: argparse.Namespace) -> "JsonFormatter | RecordFormatter":
    """Returns the formatter that the flags ask for.

    A property of --formatter-property wins over the flag of a deserializer, and that over a
    property of the file that --formatter-config names.
    """
    from odradek.cli.records.record_formatter import NEEDS, JsonFormatter, RecordFormatter
    from odradek.cli.records.separators import hint_without_effect

    if arguments.json:
        return JsonFormatter()
    config = getattr(arguments, "formatter_config", None)
    properties = read_properties(config) if config else {}
    for kind in ("key", "value"):
        name = getattr(arguments, f"{kind}_deserializer")
        if name is not None:
            properties[f"{kind}.deserializer"] = name
    properties |= dict(arguments.formatter_property)
    formatter = RecordFormatter(properties)
    hint_without_effect("--formatter-property", properties, NEEDS)
    return formatter
