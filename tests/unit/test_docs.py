"""What the documentation names must exist: files, modules, commands, tests and link targets.

Records of decisions and the changelog are not checked: they tell how things were.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "odradek"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *SOURCE.rglob("*.md"),
    ]
)
CHECKED = [page for page in PAGES if "decisions" not in page.parts]

_CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(r"(?:[\w-]+/)*[\w-]+\.py")
_FOLDER = re.compile(r"(?:[\w-]+/)+")
_DOTTED = re.compile(r"(?<![\w/.-])odradek(?:\.\w+)+")
_COMMAND = re.compile(r"python -m ([\w.]+)")
_TEST = re.compile(r"test_\w+")
_NOT_SLUG = re.compile(r"[^\w\- ]")
# Tests of kafka-python's own suite, which docs/status.md tells about.
_TESTS_OF_OTHERS = {"test_alter_replica_log_dirs", "test_delete_records"}
# CONTRIBUTING.md explains how to add things by an example that does not exist.
_EXAMPLE = re.compile(r"\bping\b")
# Folders that users and programs make, not folders of this repository.
_MADE_AT_RUN_TIME = ("broker-", "checkpoint/")


def _code_spans(page: Path) -> Iterator[str]:
    for match in _CODE.finditer(_CODE_BLOCK.sub("", page.read_text())):
        if not _EXAMPLE.search(match[1]):
            yield match[1]


@cache
def _file_names() -> frozenset[str]:
    folders = ("src", "tests", "simulation", "benchmarks", "scripts")
    return frozenset(path.name for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _exists(path: str, page: Path) -> bool:
    bases = (ROOT, ROOT / "src", SOURCE, page.parent)
    return any((base / path).exists() for base in bases)


@cache
def _texts() -> str:
    return "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))


@cache
def _tests() -> frozenset[str]:
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "simulation").rglob("*.py")]
    names = {path.stem for path in files}
    for path in files:
        names.update(re.findall(r"def (test_\w+)", path.read_text()))
    return frozenset(names)


def _defines(module: Path, name: str) -> bool:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = node.name == name
        elif isinstance(node, ast.ImportFrom):
            found = any((alias.asname or alias.name) == name for alias in node.names)
        else:
            found = isinstance(node, ast.Name) and node.id == name
        if found:
            return True
    return False


def _is_known(dotted: str) -> bool:
    """Whether it is a module, something that a module defines, a logger or a setting."""
    path = ROOT / "src"
    parts = dotted.split(".")
    for index, part in enumerate(parts):
        if (path / part).is_dir():
            path = path / part
            continue
        module = path / f"{part}.py"
        rest = parts[index + 1 :] if module.exists() else parts[index:]
        module = module if module.exists() else path / "__init__.py"
        if not rest or (module.exists() and _defines(module, rest[0])):
            return True
        # Names of loggers, settings and headers are literals, or begin with one that ends in a dot.
        prefixes = [".".join(parts[:length]) + "." for length in range(2, len(parts) + 1)]
        return any(f'"{name}' in _texts() for name in (f'{dotted}"', *prefixes))
    return True


def _is_test_of_file(span: str) -> bool:
    """Whether it is `file::test`, and the file has this test."""
    path, _, name = span.partition("::")
    return (ROOT / path).exists() and f"def {name}(" in (ROOT / path).read_text()


def _slug(heading: str) -> str:
    return _NOT_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


def _headings(page: Path) -> set[str]:
    text = _CODE_BLOCK.sub("", page.read_text())
    return {_slug(match) for match in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def _page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", CHECKED, ids=_page_id)
def test_files_and_folders_exist(page: Path) -> None:
    missing = []
    for span in _code_spans(page):
        if _FILE.fullmatch(span):
            found = _exists(span, page) if "/" in span else span in _file_names()
        elif _FOLDER.fullmatch(span) and not span.startswith(_MADE_AT_RUN_TIME):
            found = _exists(span, page)
        else:
            continue
        if not found:
            missing.append(span)
    assert missing == []


@pytest.mark.parametrize("page", CHECKED, ids=_page_id)
def test_modules_commands_and_tests_exist(page: Path) -> None:
    text = page.read_text()
    missing = [
        name for name in _DOTTED.findall(text) if not (_is_known(name) or _EXAMPLE.search(name))
    ]
    for command in _COMMAND.findall(text):
        path = command.replace(".", "/")
        if command.partition(".")[0] in {"odradek", "benchmarks", "simulation", "tests"} and not (
            _exists(f"{path}.py", page) or _exists(f"{path}/__main__.py", page)
        ):
            missing.append(f"python -m {command}")
    missing += [
        span
        for span in _code_spans(page)
        if (_TEST.fullmatch(span) and span not in _tests() | _TESTS_OF_OTHERS)
        or ("::" in span and not _is_test_of_file(span))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=_page_id)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", _CODE_BLOCK.sub("", page.read_text()))):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in _headings(target)
        ):
            broken.append(link)
    assert broken == []


def test_the_files_on_the_paths_exist() -> None:
    """The tree of paths in architecture.md is in code blocks, which the other tests leave out."""
    page = ROOT / "docs" / "architecture.md"
    blocks = _CODE_BLOCK.findall(page.read_text())
    paths = re.findall(r"^ *([\w/]+(?:\.py|/))  ", "\n".join(blocks), re.MULTILINE)
    assert len(paths) > 50
    assert [path for path in paths if not (SOURCE / path).exists()] == []


def test_the_names_in_where_is_stand_in_the_files_beside_them() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (ROOT / "docs" / "where-is.md").read_text().splitlines()
        if line.startswith("| ") and "`" in line
    ]
    assert len(rows) > 50
    missing = [
        f"{name} is not in {files}"
        for _, files, deciders in rows
        for name in re.findall(r"`([\w.]+)`", deciders)
        for part in name.split(".")
        if not re.search(rf"^ *(?:async )?(?:def|class) {part}\b", _sources(files), re.MULTILINE)
    ]
    assert not missing


def _sources(files: str) -> str:
    paths = [SOURCE / name for name in re.findall(r"`([\w./]+)`", files)]
    modules = [path for each in paths for path in (each.glob("*.py") if each.is_dir() else [each])]
    return "\n".join(path.read_text() for path in modules)
