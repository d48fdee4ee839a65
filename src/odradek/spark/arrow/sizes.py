"""How large a batch of records is meant to be: read by those that do not want to load numba."""

from typing import Final

# Below the default of max.message.bytes, with room for what compression may add.
DEFAULT_BATCH_BYTES: Final = 900_000
