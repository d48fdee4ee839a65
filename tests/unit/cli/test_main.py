"""The command's front door: dispatch, help, and one clear line for whatever goes wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cli.commands import SUMMARIES, module_name
from odradek.cli.kafka_names import NOT_YET, resolve
from odradek.cli.main import main
from odradek.cli.parser import load_tool
from odradek.tools.failures import CommandFailed, explain

Captured = pytest.CaptureFixture[str]


def one_line(captured: Captured) -> str:
    """Everything that was said on stderr, which must be one line."""
    output = captured.readouterr()
    assert output.out == ""
    assert output.err.endswith("\n")
    assert output.err.count("\n") == 1
    return output.err


def test_help_lists_every_command_with_a_line(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    for name, summary in SUMMARIES.items():
        assert any(
            line.split(maxsplit=1) == [name, summary] for line in output.splitlines() if line
        ), name


@pytest.mark.parametrize("command", SUMMARIES)
def test_every_command_has_help(command: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert output.startswith(f"usage: odradek {command}")
    # After its first letter the summary is unchanged: ZooKeeper, JSON and ACLs keep their spelling.
    assert SUMMARIES[command][1:] in " ".join(output.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("topics", "topics"),
        ("kafka-topics", "topics"),
        ("kafka-topics.sh", "topics"),
        ("kafka-topics.bat", "topics"),
        ("bin/kafka-topics.sh", "topics"),
        ("./kafka-topics.sh", "topics"),
        ("kafka-server-start.sh", "broker"),
        ("kafka-server-stop.sh", "server-stop"),
        ("zookeeper-server-start.sh", "zookeeper"),
        ("zookeeper-server-stop", "zookeeper-server-stop"),
        ("zookeeper-shell.sh", "zookeeper-shell"),
        ("kafka-producer-perf-test", "producer-perf-test"),
    ],
)
def test_kafkas_names_of_commands_work(typed: str, meant: str) -> None:
    assert resolve(typed) == meant


def test_a_mistyped_command_names_the_nearest(capsys: Captured) -> None:
    assert main(["topisc"]) == 2
    assert "did you mean topics?" in one_line(capsys)


def test_an_unknown_command_points_to_help(capsys: Captured) -> None:
    assert main(["zzz"]) == 2
    assert "odradek --help" in one_line(capsys)


@pytest.mark.parametrize("command", sorted(NOT_YET))
def test_a_tool_of_a_later_version_is_named_as_such(command: str, capsys: Captured) -> None:
    assert main([f"kafka-{command}.sh", "--list"]) == 2
    assert "not part of this version yet" in one_line(capsys)


def test_a_mistyped_flag_names_the_nearest(capsys: Captured) -> None:
    assert main(["topics", "--list", "--excldue-internal"]) == 2
    assert one_line(capsys) == (
        "odradek topics: unknown flag --excldue-internal; did you mean --exclude-internal?\n"
    )


def test_a_flag_like_no_other_points_to_help(capsys: Captured) -> None:
    assert main(["topics", "--zzz"]) == 2
    assert "odradek topics --help" in one_line(capsys)


def test_a_missing_flag_is_named_and_where_the_others_are(capsys: Captured) -> None:
    assert main(["console-producer", "--sync"]) == 2
    assert one_line(capsys) == (
        "odradek console-producer: --topic is needed; odradek console-producer --help shows the"
        " flags\n"
    )
    assert main(["topics", "--create"]) == 2
    assert "--create needs --topic NAME; odradek topics --help shows the flags" in one_line(capsys)


@pytest.mark.parametrize("tool", ["kafka-topics.sh", "console-producer", "acls", "broker"])
def test_a_bare_tool_shows_its_help_and_what_is_missing(tool: str, capsys: Captured) -> None:
    assert main([tool]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    command = resolve(tool)
    assert said.err.startswith(f"usage: odradek {command}")
    assert said.err.splitlines()[-1].startswith(f"odradek {command}: ")


def test_the_version_has_a_short_flag(capsys: Captured) -> None:
    assert main(["-V"]) == 0
    short = capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == short


def test_a_bad_value_is_named(capsys: Captured) -> None:
    assert main(["topics", "--create", "--topic", "t", "--partitions", "many"]) == 2
    assert "--partitions: 'many' is not a whole number" in one_line(capsys)


@pytest.mark.parametrize("command", SUMMARIES)
def test_no_flag_is_declared_twice_and_each_has_help(command: str) -> None:
    _, parser = load_tool(command, module_name(command))
    for action in parser._actions:
        assert action.help, f"{command} {action.option_strings}"


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (CommandFailed("no"), "no"),
        (ExceptionGroup("two", [CommandFailed("first"), ValueError()]), "first"),
        (
            PermissionError(13, "Permission denied", "x"),
            "cannot write to x: permission denied; let this user write there, or name another",
        ),
        (
            OSError(28, "Full"),
            "the output cannot be written: Full; make room, or write it elsewhere",
        ),
    ],
)
def test_failures_are_explained(failure: Exception, line: str) -> None:
    assert explain(failure) == line


def test_a_refused_connection_says_what_to_do() -> None:
    line = explain(ConnectionRefusedError(111, "Connection refused"))
    assert "odradek up" in line
    assert "--bootstrap-server" in line


def test_a_reader_that_leaves_is_no_failure() -> None:
    python = "from odradek.cli.main import main; import sys; sys.exit(main(['completion', 'bash']))"
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{python}" | head -c 1; exit ${{PIPESTATUS[0]}}'],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.stderr == ""
    assert done.returncode in {0, 141}


def test_standard_output_may_be_closed() -> None:
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m odradek.cli topics --help >&-'],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closing", ["<&-", "<&- >&-", "<&- >&- 2>&-", "2>&-"])
def test_any_standard_stream_may_be_closed(closing: str) -> None:
    """Else the next file or socket would get its number, and be read or written in its place."""
    line = f'"{sys.executable}" -m odradek.cli topics --list --bootstrap-server 127.0.0.1:9'
    done = subprocess.run(
        ["sh", "-c", f"{line} {closing}"], capture_output=True, check=False, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert ("connection refused" in done.stderr) == ("2>&-" not in closing)


def test_standard_input_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from odradek.tools.standard_input import input_lines\n"
        "async def read():\n"
        "    async for lines in input_lines(): pass\n"
        "asyncio.run(read())\n"
    )
    with open(tmp_path / "written", "w") as not_readable:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=not_readable,
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
    assert "CommandFailed: cannot read standard input: Bad file descriptor" in done.stderr


def test_ctrl_c_leaves_no_traceback_while_modules_are_imported() -> None:
    """A module that is imported on the way sends the signal, as a hurried user does."""
    program = (
        "import os, signal, sys\n"
        "class Hurry:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'odradek.cli.commands':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hurry())\n"
        "from odradek.cli.main import main\n"
        "sys.exit(main(['topics', '--list']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_typing_a_command_imports_no_other_tool() -> None:
    code = (
        "import sys; from odradek.cli.main import main\n"
        "try: main(['topics', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('odradek.') or m in"
        " {'uvloop', 'cramjam', 'asyncio', 'confluent_kafka', 'json'}], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    imported = set(eval(done.stderr))
    assert imported == {
        "odradek.cli",
        "odradek.cli.dispatch",
        "odradek.cli.main",
        "odradek.cli.commands",
        "odradek.cli.kafka_names",
        "odradek.tools.failures",
        "odradek.cli.parser",
        "odradek.cli.connection_options",
        "odradek.cli.topics",
        "odradek.cli.topics.topics",
        "odradek.tools",
        "odradek.tools.client_properties",
        "odradek.tools.hints",
        "odradek.tools.profiles",
        "odradek.wording",
    }


def test_debug_shows_where_it_failed(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_DEBUG", "1")
    assert main(["topics"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_every_complaint_is_one_line(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def complain(_: object) -> int:
        raise CommandFailed("first\n  second")

    monkeypatch.setattr("odradek.cli.topics.topics.run", complain)
    assert main(["topics", "--list"]) == 1
    assert one_line(capsys) == "odradek topics: first second\n"
