"""The flag --json of `odradek get` and `odradek console-consumer`."""

import argparse

from odradek.tools.failures import UsageError

# The flags that choose what is printed of a record, and how. A command need not have all of them.
_FORMATTER_FLAGS = (
    "formatter_property",
    "formatter_config",
    "key_deserializer",
    "value_deserializer",
)


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
