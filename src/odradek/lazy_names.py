"""The names of a package that are imported when they are first used.

    _HOMES = {"Producer": "odradek.client.producer.producer"}
    if not TYPE_CHECKING:
        __getattr__ = lazy_names(__name__, _HOMES)

Most of the time in which a tool answers is spent on imports, so a package that many tools import
brings no more than the name that was asked for. Type checkers see the imports that the package has
under `TYPE_CHECKING`, and must not see `__getattr__`: with it they take any name for right.
"""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, str], if_missing: Callable[[str], None] | None = None
) -> Callable[[str], object]:
    """Returns `__getattr__` of a package; `homes` has the module of each name.

    `if_missing` is called with any other name, and may raise an error that says more.
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            if if_missing is not None:
                if_missing(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return get
