"""Without the extra `schemas` only what needs no library is tested."""

from importlib.util import find_spec

_NEEDS = {
    "test_avro.py": "fastavro",
    "test_json_schema.py": "jsonschema",
    "test_protobuf.py": "google.protobuf",
}


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [name for name, needed in _NEEDS.items() if not _is_there(needed)]
