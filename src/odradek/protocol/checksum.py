"""CRC-32C, the checksum of record batches, from the native `crc32c` package.

When that package is imported, it reads its own version with a module that takes twenty milliseconds
to load, a twentieth of the time in which a broker starts. So the extension inside the package is
loaded directly where that is possible.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, cast

Checksum = Callable[..., int]


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        extension = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            return cast("Checksum", module.crc32c)
    from crc32c import crc32c  # noqa: PLC0415 - the slow way, should the package change inside

    return cast("Checksum", crc32c)


crc32c: Final = _load()
"""The checksum of bytes, or of what a second argument is the checksum of followed by them."""
