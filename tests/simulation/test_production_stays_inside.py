"""Time, chance, files and threads come from `odradek.world`: otherwise no seed would repeat."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "odradek"

# Rooms that are never simulated: they are the outside, face a person's terminal, or are services in
# processes of their own.
OUTSIDE = {
    *("world", "cli", "local", "perf", "tools", "testing", "spark", "recipes", "schemas"),
    *("ops", "web", "connect", "console", "sql"),
}
# What of a room is never simulated: processes of Spark, with files of their own.
OUTSIDE_PARTS = {("streams", "spark")}
# SQLite opens its own file; the simulation uses the store in memory.
# The client without asyncio runs a loop in a thread of its own.
# The library of Kerberos, which no simulation loads, has a program that renews tickets.
EXCEPTIONS = {
    *("metadata/sqlite.py", "client/sync/loop_thread.py", "client/tracing/setup.py"),
    "security/kerberos/library.py",
}

MODULES = {
    "concurrent.futures",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}
CALLS = {"open", "uuid1", "uuid4", "urandom", "now", "utcnow", "today"}


def production_files() -> list[Path]:
    return [
        path
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in OUTSIDE
        and path.relative_to(SOURCE).parts[:2] not in OUTSIDE_PARTS
        and str(path.relative_to(SOURCE)) not in EXCEPTIONS
    ]


def reaches_outside(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            names = [name for name in [_called(node.func)] if name in CALLS]
        found += [f"line {getattr(node, 'lineno', 0)}: {name}" for name in names]
    return found


def _called(function: ast.expr) -> str:
    """The bare name of what is called; methods only of modules and of datetime."""
    if isinstance(function, ast.Name):
        return function.id
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return ""
    return function.attr if function.value.id in ("os", "uuid", "datetime", "date", "io") else ""


def test_the_scan_sees_what_it_is_for() -> None:
    code = (
        "import time\nfrom random import choice\nimport uuid\n"
        "uuid.uuid4()\nopen('f')\ndisk.open('f')"
    )
    assert reaches_outside(ast.parse(code)) == [
        "line 1: time",
        "line 2: random",
        "line 4: uuid4",
        "line 5: open",
    ]


def test_production_reaches_outside_only_through_the_world() -> None:
    offenders = {
        str(path.relative_to(SOURCE)): found
        for path in production_files()
        if (found := reaches_outside(ast.parse(path.read_text())))
    }
    assert offenders == {}
