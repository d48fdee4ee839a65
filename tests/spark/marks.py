"""What has happened, across processes: a directory of empty files."""

import time
from pathlib import Path

_LOOK_AGAIN_S = 0.02


class NeverHappened(AssertionError):
    """What was waited for did not come."""


class Marks:
    def __init__(self, where: str) -> None:
        self._where = Path(where)
        self._where.mkdir(parents=True, exist_ok=True)

    def first(self, name: str) -> bool:
        """Whether this is the first time; from now on it is not."""
        try:
            (self._where / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def has(self, name: str) -> bool:
        return (self._where / name).exists()

    def names(self) -> set[str]:
        return {path.name for path in self._where.iterdir()}

    def wait(self, name: str, timeout_s: float) -> None:
        """Returns once `name` is there; if it never is, that is a mark as well."""
        end_s = time.monotonic() + timeout_s
        while not self.has(name):
            if time.monotonic() > end_s:
                self.first(f"never-{name}")
                raise NeverHappened(name)
            time.sleep(_LOOK_AGAIN_S)
