"""`odradek sql-test`: runs statements in memory, and says whether their assertions hold."""

import argparse

_EXAMPLES = """\
examples:
  odradek sql-test orders.sql
  odradek sql-test tests/*.sql

Each file runs by itself, without a broker. ASSERT VALUES compares the next row of a stream or
table: docs/sql.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek sql-test [--extension-dir DIR] FILE [FILE ...]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--extension-dir", metavar="DIR",
        help="a directory with functions of your own, as ksql.extension.dir of the server",
    )  # fmt: skip
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file with SQL statements")


def run(arguments: argparse.Namespace) -> int:
    from odradek.tools.failures import CommandFailed
    from odradek.tools.files import read_text
    from odradek.world.installing import install_line

    try:
        from odradek.sql.errors import SqlError
        from odradek.sql.testing import run_tests
    except ImportError as error:
        raise CommandFailed(f"{error.name} is not installed: {install_line('sql')}") from None
    if arguments.extension_dir is not None:
        from odradek.sql.functions.loading import BadFunctions, load

        try:
            load(arguments.extension_dir)
        except BadFunctions as error:
            raise CommandFailed(str(error)) from None
    failed = 0
    for path in arguments.files:
        text = read_text(path)
        try:
            count = run_tests(text)
        except SqlError as error:
            failed += 1
            print(f"{path}: FAILED: {error}")
        else:
            print(f"{path}: {count} assertions hold")
    return 1 if failed else 0
