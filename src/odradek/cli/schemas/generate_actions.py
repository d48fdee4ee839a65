"""`odradek schema generate`: Python classes of schemas."""

import argparse
import sys
from pathlib import Path

from odradek.cli.schemas.schema_files import read_schema
from odradek.schemas.classes.generate import generate
from odradek.schemas.classes.naming import attribute_names
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world.disk import OsDisk


def run(arguments: argparse.Namespace) -> int:
    paths = [Path(name) for name in arguments.words]
    out = None if arguments.out is None else Path(arguments.out)
    is_directory = out is not None and (out.is_dir() or arguments.out.endswith("/"))
    if len(paths) > 1 and not is_directory:
        raise UsageError("several files need a directory: --out models/")
    written: dict[str, Path] = {}
    for path in paths:
        schema = read_schema(path, arguments.type, arguments.reference, arguments.include)
        text = generate(
            schema,
            arguments.style or "dataclass",
            path.stem,
            f"Made by `odradek schema generate` of {path.name}.",
        )
        if out is None:
            sys.stdout.write(text)
            continue
        target = out / f"{_module_name(path)}.py" if is_directory else out
        if str(target) in written:
            raise UsageError(f"{written[str(target)]} and {path} would both become {target}")
        written[str(target)] = path
        _write(target, text)
    return 0


def _module_name(path: Path) -> str:
    return attribute_names([path.stem.lower()])[0]


def _write(path: Path, text: str) -> None:
    try:
        OsDisk().make_directories(str(path.parent))
        OsDisk().replace(str(path), text.encode())
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from None
    print(f"{path} is written")
