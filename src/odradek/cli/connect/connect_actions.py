"""The actions of `odradek connect` that ask a worker."""

import argparse
import json
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from odradek.cli.connect.connector_files import connector_of
from odradek.cli.connect.worker_client import WorkerClient, client_of, path_of
from odradek.config.spelling import did_you_mean
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import read_text
from odradek.tools.terminal import print_json

Action = Callable[[WorkerClient, argparse.Namespace], int]


_UNKNOWN: Final = re.compile(
    "Connector (.+) not found|No status found for connector (.+)|Unknown connector:? (.+)"
)
_UNKNOWN_TASK: Final = re.compile(r"Unknown task: (.+)-\d+")


def carry_out(arguments: argparse.Namespace) -> int:
    client = client_of(arguments)
    try:
        return _ACTIONS[arguments.action](client, arguments)
    except CommandFailed as error:
        raise CommandFailed(_for_people(client, arguments, str(error))) from None


def _for_people(client: WorkerClient, arguments: argparse.Namespace, message: str) -> str:
    """Returns the message of a worker, which speaks of REST, with what to type next."""
    if "must be in the STOPPED state" in message:
        name = arguments.words[0]
        return (
            f"the offsets of {name} can be changed when it is stopped: odradek connect stop {name}"
        )
    if (unknown := _UNKNOWN.fullmatch(message)) is not None:
        name = next(group for group in unknown.groups() if group)
        known = client.ask("GET", "/connectors")
        near = did_you_mean(name, known) or "; odradek connect list shows all"
        return f"Connector {name} not found{near}"
    if message.endswith("contains no connector type"):
        return f"{message}: set connector.class; odradek connect plugins lists what there is"
    if (task := _UNKNOWN_TASK.fullmatch(message)) is not None:
        return f"{message}; odradek connect status {task[1]} shows the tasks"
    if several := re.match("(Failed to find any class.*), available .*?(; did .*)?$", message):
        return several[1] + (several[2] or "; odradek connect plugins lists what there is")
    return re.sub(r"\.?\nYou can also find .*", "", message).replace("\n", " ")


def _list(client: WorkerClient, arguments: argparse.Namespace) -> int:
    found = client.ask("GET", "/connectors?expand=status&expand=info")
    if arguments.json:
        print_json(found)
        return 0
    rows = [("NAME", "TYPE", "STATE", "TASKS", "CLASS")]
    for name, parts in sorted(found.items()):
        status, config = parts["status"], parts["info"]["config"]
        rows.append(
            (
                name,
                status["type"],
                status["connector"]["state"],
                _counted(task["state"] for task in status["tasks"]),
                config.get("connector.class", "").rpartition(".")[2],
            )
        )
    _print_table(rows)
    return 0


def _counted(states: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "-"


def _status(client: WorkerClient, arguments: argparse.Namespace) -> int:
    """Prints a connector and its tasks; the exit code is 1 if one of them has failed."""
    if not arguments.words:
        return _list(client, arguments)
    status = client.ask("GET", path_of(arguments.words[0], "status"))
    parts = [("connector", status["connector"])]
    parts += [(f"task {task['id']}", task) for task in status["tasks"]]
    if arguments.json:
        print_json(status)
    else:
        rows = [("", "STATE", "WORKER")]
        rows += [(what, part["state"], part["worker_id"]) for what, part in parts]
        _print_table(rows)
        failures = [(what, part["trace"]) for what, part in parts if part.get("trace")]
        for what, trace in failures:
            print(f"\n{what}: {_reason(trace)}")
        if failures:
            print(f"\nodradek connect status {arguments.words[0]} --json shows where it failed")
    return int(any(part["state"] == "FAILED" for _, part in parts))


def _reason(trace: str) -> str:
    """Returns the line of a trace that says what is wrong: Python's last one, Java's first."""
    lines = [line for line in trace.splitlines() if line.strip()]
    line = lines[-1 if lines[0].startswith("Traceback") else 0]
    return re.sub(r"^\w+(\.\w+)+: ", "", line)


def _create(client: WorkerClient, arguments: argparse.Namespace) -> int:
    known = set(client.ask("GET", "/connectors"))
    for path in arguments.words:
        name, config = connector_of(path)
        if name in known:
            if arguments.state is not None:
                raise UsageError(f"{name} exists: --state is for new connectors; use pause or stop")
            answer = client.ask("PUT", path_of(name, "config"), config)
        else:
            body: dict[str, Any] = {"name": name, "config": config}
            if arguments.state is not None:
                body["initial_state"] = arguments.state
            answer = client.ask("POST", "/connectors", body)
        _tell(arguments, answer, f"{name} is {'changed' if name in known else 'made'}")
        _tell_unknown({"name": name, **config}, _report(client, name, config))
    return 0


def _validate(client: WorkerClient, arguments: argparse.Namespace) -> int:
    """Prints what is wrong; the exit code is 1 if anything is."""
    name, config = connector_of(arguments.words[0])
    given = {"name": name, **config}
    report = _report(client, name, config)
    if arguments.json:
        print_json(report)
        return int(report["error_count"] > 0)
    wrong = [one["value"] for one in report["configs"] if one["value"]["errors"]]
    for value in wrong:
        for line in value["errors"]:
            print(f"{value['name']}: {line}")
    _tell_unknown(given, report)
    if not wrong:
        print(f"{arguments.words[0]} is right")
    return int(bool(wrong))


def _report(client: WorkerClient, name: str, config: Mapping[str, str]) -> Any:
    plugin = quote(config.get("connector.class", "-"), safe="")
    path = f"/connector-plugins/{plugin}/config/validate"
    return client.ask("PUT", path, {"name": name, **config})


def _tell_unknown(given: Mapping[str, str], report: Mapping[str, Any]) -> None:
    """Connect skips names that it does not know, so they are not errors."""
    known = {config["value"]["name"] for config in report["configs"]}
    for unknown in sorted(set(given) - known):
        if not unknown.startswith(_PREFIXES):
            near = did_you_mean(unknown, known)
            line = f"{unknown}: no setting of {report['name']} has this name{near}"
            print(line, file=sys.stderr)


_PREFIXES: Final = (
    "key.converter.", "value.converter.", "header.converter.", "topic.creation.", "odradek.",
    "producer.override.", "consumer.override.", "admin.override.",
)  # fmt: skip


def _preview(client: WorkerClient, arguments: argparse.Namespace) -> int:
    word = arguments.words[0]
    query = urlencode({"count": arguments.count})
    if word == "-" or Path(word).exists():
        name, config = connector_of(word)
        plugin = quote(config.get("connector.class", "-"), safe="")
        path = f"/connector-plugins/{plugin}/config/preview?{query}"
        records = client.ask("PUT", path, {"name": name, **config})
    else:
        records = client.ask("GET", f"{path_of(word, 'preview')}?{query}")
    for record in records:
        print(json.dumps(record, ensure_ascii=False))
    if not records:
        print("there is no record at the moment", file=sys.stderr)
    return 0


def _target(method: str, part: str, words: str) -> Action:
    def act(client: WorkerClient, arguments: argparse.Namespace) -> int:
        for name in arguments.words:
            client.ask(method, path_of(name, *filter(None, (part,))))
            _tell(arguments, {"name": name, "done": part or "delete"}, f"{name} {words}")
        return 0

    return act


def _restart(client: WorkerClient, arguments: argparse.Namespace) -> int:
    for name in arguments.words:
        if arguments.task is not None:
            client.ask("POST", path_of(name, "tasks", str(arguments.task), "restart"))
            answer: Any = None
        else:
            flags = {
                "includeTasks": str(arguments.tasks or arguments.failed).lower(),
                "onlyFailed": str(arguments.failed).lower(),
            }
            answer = client.ask("POST", f"{path_of(name, 'restart')}?{urlencode(flags)}")
        _tell(arguments, answer or {"name": name}, f"{name} restarts")
    return 0


def _config(client: WorkerClient, arguments: argparse.Namespace) -> int:
    """Shows the configuration, or changes some of it."""
    name, *changes = arguments.words
    if not changes:
        config = client.ask("GET", path_of(name, "config"))
        if arguments.json:
            print_json(config)
        else:
            for key, text in sorted(config.items()):
                print(f"{key}={text}")
        return 0
    patch: dict[str, str | None] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key:
            raise UsageError(f"{change} is not KEY=VALUE, or KEY= to remove it")
        patch[key] = text or None
    answer = client.ask("PATCH", path_of(name, "config"), patch)
    _tell(arguments, answer, f"{name} is changed")
    given = {key: text for key, text in patch.items() if text is not None}
    _tell_unknown(given, _report(client, name, answer["config"]))
    return 0


def _offsets(client: WorkerClient, arguments: argparse.Namespace) -> int:
    path = path_of(arguments.words[0], "offsets")
    if arguments.reset and arguments.set:
        raise UsageError("--reset and --set cannot be used together")
    if arguments.reset:
        answer = client.ask("DELETE", path)
        _tell(arguments, answer, answer["message"])
    elif arguments.set:
        text = sys.stdin.read() if arguments.set == "-" else read_text(arguments.set)
        try:
            given = json.loads(text)
        except ValueError as error:
            raise CommandFailed(f"{arguments.set} is not JSON: {error}") from None
        answer = client.ask("PATCH", path, given)
        _tell(arguments, answer, answer["message"])
    else:
        found = client.ask("GET", path)
        if arguments.json:
            print_json(found)
        else:
            for offset in found["offsets"]:
                print(f"{json.dumps(offset['partition'])}  {json.dumps(offset['offset'])}")
    return 0


def _topics(client: WorkerClient, arguments: argparse.Namespace) -> int:
    name = arguments.words[0]
    if arguments.reset:
        client.ask("PUT", path_of(name, "topics", "reset"))
        _tell(arguments, {"name": name}, f"the topics of {name} are forgotten")
        return 0
    found = client.ask("GET", path_of(name, "topics"))
    if arguments.json:
        print_json(found)
    else:
        for topic in found.get(name, {}).get("topics", ()):
            print(topic)
    return 0


def _plugins(client: WorkerClient, arguments: argparse.Namespace) -> int:
    if arguments.words:
        path = f"/connector-plugins/{quote(arguments.words[0], safe='')}/config"
        settings = client.ask("GET", path)
        if arguments.json:
            print_json(settings)
            return 0
        table = [("SETTING", "TYPE", "DEFAULT", "")]
        for one in settings:
            default = "(required)" if one["required"] else one["default_value"] or ""
            table.append((one["name"], one["type"], default, one["documentation"]))
        _print_table(table)
        return 0
    only = str(not arguments.all).lower()
    found = client.ask("GET", f"/connector-plugins?connectorsOnly={only}")
    if arguments.json:
        print_json(found)
    else:
        rows = [("TYPE", "VERSION", "CLASS")]
        rows += [(one["type"], one["version"] or "", one["class"]) for one in found]
        _print_table(rows)
    return 0


def _logs(client: WorkerClient, arguments: argparse.Namespace) -> int:
    """Prints the lines of a connector at all workers that run it or a task of it."""
    name = arguments.words[0]
    status = client.ask("GET", path_of(name, "status"))
    parts = [status["connector"], *status["tasks"]]
    clients = [client.beside(worker) for worker in sorted({part["worker_id"] for part in parts})]
    path = path_of(name, "logs")

    def read(one: WorkerClient) -> Iterable[Mapping[str, Any]]:
        found: Iterable[Mapping[str, Any]] = (
            one.events(path) if arguments.follow else one.ask("GET", path)
        )
        return found

    lines = _merged(clients, read)
    if not arguments.follow:
        lines = iter(sorted(lines, key=lambda line: line["time_ms"]))
    try:
        for line in lines:
            _print_line(line, arguments)
    except KeyboardInterrupt:
        return 130
    return 0


def _merged(
    clients: Sequence[WorkerClient], read: Callable[[WorkerClient], Iterable[Mapping[str, Any]]]
) -> Iterator[Mapping[str, Any]]:
    """Yields the lines of several workers as they come. One that cannot be reached is named."""
    lines: queue.SimpleQueue[Mapping[str, Any] | CommandFailed | None] = queue.SimpleQueue()

    def follow(client: WorkerClient) -> None:
        try:
            for line in read(client):
                lines.put(line)
        except CommandFailed as error:
            lines.put(error)
        finally:
            lines.put(None)

    for client in clients:
        threading.Thread(target=follow, args=(client,), daemon=True).start()
    failures = 0
    running = len(clients)
    while running:
        line = lines.get()
        if line is None:
            running -= 1
        elif isinstance(line, CommandFailed):
            failures += 1
            if failures == len(clients):
                raise line
            print(f"odradek connect: {line}", file=sys.stderr)
        else:
            yield line


def _print_line(line: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(line), flush=True)
        return
    moment = datetime.fromtimestamp(line["time_ms"] / 1000, UTC)
    print(f"[{moment:%Y-%m-%d %H:%M:%S}] {line['level']} {line['text']}", flush=True)


def _tell(arguments: argparse.Namespace, answer: object, words: str) -> None:
    if arguments.json:
        print_json(answer)
    else:
        print(words)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


_ACTIONS: Final[Mapping[str, Action]] = {
    "list": _list,
    "status": _status,
    "create": _create,
    "validate": _validate,
    "preview": _preview,
    "pause": _target("PUT", "pause", "is paused"),
    "resume": _target("PUT", "resume", "runs again"),
    "stop": _target("PUT", "stop", "is stopped; its offsets stay"),
    "restart": _restart,
    "delete": _target("DELETE", "", "is deleted; its offsets stay"),
    "config": _config,
    "offsets": _offsets,
    "topics": _topics,
    "plugins": _plugins,
    "logs": _logs,
}
