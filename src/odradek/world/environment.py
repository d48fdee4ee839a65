"""The environment variables of this process."""

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """Returns the variables as they are now, such as KAFKA_OPTS."""
    return os.environ


def set_default(name: str, value: str) -> None:
    """Sets a variable for libraries of this process that read it, unless it is set already."""
    os.environ.setdefault(name, value)
