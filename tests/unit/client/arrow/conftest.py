"""Without the extra `spark` there is nothing to test here but that it says so."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyarrow") and find_spec("numba") else ["test_*.py"]
