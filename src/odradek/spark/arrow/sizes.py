"""The target size of a batch of records. Importing this does not load numba."""

from typing import Final

# Below the default of max.message.bytes, with room for bytes that compression may add.
DEFAULT_BATCH_BYTES: Final = 900_000
