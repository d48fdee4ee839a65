"""Without the extra `spark` there is nothing to test here but that it says so."""

from importlib.util import find_spec

_TESTS = ["test_*.py", "archive/test_*.py"]
collect_ignore_glob = [] if find_spec("pyspark") and find_spec("numba") else _TESTS
