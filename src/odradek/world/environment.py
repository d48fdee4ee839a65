"""The environment variables of this process."""

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """Returns the variables as they are now, such as KAFKA_OPTS."""
    return os.environ
