"""Prints the names of the tests that failed in the last run, one on a line, as pytest takes them.

pytest-xdist writes the group of a test behind its name, as in `test_x.py::test_x@postgres`. Without
it nothing knows such a name: `pytest --last-failed` leaves the test out, and if it is the only one,
runs all tests.
"""

import json
import re
import sys
from pathlib import Path

_CACHE = Path(".pytest_cache/v/cache/lastfailed")
_GROUP = re.compile(r"@[\w.-]+$")


def failed_tests(cache: str) -> list[str]:
    return [_GROUP.sub("", name) for name in json.loads(cache)]


if __name__ == "__main__":
    for failed in failed_tests(_CACHE.read_text(encoding="utf-8")):
        sys.stdout.write(f"{failed}\n")
