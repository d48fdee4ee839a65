"""`odradek pipeline`: Spark queries that run until they are told to stop."""

import argparse

from odradek.cli.connection_options import add_json_argument, add_watch_argument
from odradek.cli.parser import whole_number
from odradek.cli.spark.options import add_spark_arguments, announce_spark
from odradek.tools.failures import MissingFlag, UsageError

_ACTIONS = ("run", "list", "status", "stop")
_EXAMPLES = """\
examples:
  odradek pipeline run clicks.toml             # in the foreground; Ctrl-C ends it in order
  odradek pipeline run clicks.py --once        # what is there now, then the end
  odradek pipeline list                        # in another terminal
  odradek pipeline status clicks
  odradek pipeline stop clicks                 # finishes its micro-batch first

A query that fails is started again from its checkpoint, after 1, 2, 4, ... 60 seconds. `status`
ends with 0 if the pipeline runs or has finished, with 1 if it failed, with 3 if it does not run.
docs/pipelines.md has both forms of the file; --spark-property overrides the settings in it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek pipeline run FILE | list | status NAME | stop NAME [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=_ACTIONS, help="what to do")
    parser.add_argument(
        "subject", metavar="FILE|NAME", nargs="?", help="with run: the file; else: the name"
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        default="./odradek-pipelines",
        help="the directory of states and checkpoints (default: ./odradek-pipelines)",
    )
    parser.add_argument("--name", metavar="NAME", help="with run: another name than the file's")
    parser.add_argument(
        "--once",
        action="store_true",
        help="with run: process the available records, and end",
    )
    parser.add_argument(
        "--max-restarts",
        metavar="N",
        type=whole_number,
        help="with run: give up after this many consecutive failures (default: never; with --once:"
        " 0)",
    )
    add_spark_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("run", "stop"))


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.spark import pipeline_actions as actions

    if arguments.action == "list":
        if arguments.subject:
            raise UsageError("list takes no name; odradek pipeline status NAME shows one")
        return actions.show_all(arguments)
    if not arguments.subject:
        action = "a FILE.py or FILE.toml" if arguments.action == "run" else "the pipeline's name"
        raise MissingFlag(f"{arguments.action} needs {action}")
    if arguments.action == "run":
        announce_spark()
        from odradek.cli.spark.pipeline_running import run_pipeline

        return run_pipeline(arguments)
    return {"status": actions.status, "stop": actions.stop}[arguments.action](arguments)
