"""What a flag that a tool does not have probably means: users bring flags from other tools.

In order:

1. a flag of the tool that differs in one letter;
2. a flag by which another tool, of ours or of others, says the same: `--acks` is
   `--request-required-acks` of the console producer, `--num-messages` is `--num-records`;
3. a property that is spelt as a flag: `--print-key` is `--formatter-property print.key=true`, and
   `--linger-ms` is `--command-property linger.ms=...`;
4. the nearest flag of the tool.

Before all that, `explained` answers flags for which no tool of ours needs one: the console producer
has no `--file`, because it reads standard input.
"""

import shlex
from collections.abc import Collection
from typing import Final

from odradek.config.spelling import Speller, did_you_mean, nearest

# Flags with the same meaning in different tools. Of those that a tool has, the first one counts.
_SAME: Final = (
    ("--request-required-acks", "--acks", "--required-acks", "--producer-acks"),
    (
        "--max-messages",
        "--num-records",
        "--messages",
        "--num-messages",
        "--max-records",
        "--record-count",
        "--message-count",
        "--records",
        "--count",
        "--limit",
    ),
    ("--group", "--group-id", "--consumer-group", "--consumer-group-id"),
    (
        "--bootstrap-server",
        "--bootstrap-servers",
        "--bootstrap",
        "--brokers",
        "--broker",
        "--broker-list",
        "--server",
        "--servers",
        "--host",
    ),
    ("--registry", "--url", "--schema-registry", "--schema-registry-url", "--registry-url"),
    ("--worker", "--url", "--rest-url", "--connect-url", "--worker-url"),
    ("--server", "--url", "--server-url", "--ksql-url"),
    ("--jmx-url", "--url", "--jmx"),
    ("--from-beginning", "--from-start", "--beginning", "--earliest", "--to-earliest"),
    ("--timeout-ms", "--timeout", "--session-timeout"),
    ("--record-size", "--message-size", "--payload-size", "--size"),
    ("--compression-codec", "--compression-type", "--compression", "--codec"),
    ("--partitions", "--num-partitions", "--partition-count", "--partition"),
    ("--replication-factor", "--replication", "--replicas", "--rf"),
    ("--topic", "--topics", "--topic-name", "--topic-list", "--name", "--include"),
    ("--include", "--pattern", "--regex", "--topics-include", "--topic"),
    (
        "--command-config",
        "--client-config",
        "--consumer-config",
        "--producer-config",
        "--admin-config",
        "--config-file",
        "--properties-file",
    ),
    ("--command-property", "--client-property", "--property", "--prop", "--set"),
    ("--add-config", "--config", "--set-config", "--set"),
    (
        "--reassignment-json-file",
        "--offset-json-file",
        "--path-to-json-file",
        "--topics-to-move-json-file",
        "--json-file",
        "--file",
        "--from-file",
        "--files",
    ),
    ("--throughput", "--rate"),
    ("--list", "--ls", "--show", "--describe"),
    ("--describe", "--show", "--list", "--info", "--status", "--details"),
    ("--create", "--add", "--new", "--grant"),
    ("--delete", "--remove", "--drop"),
    ("--alter", "--update", "--modify", "--change"),
    ("--all-groups", "--all"),
    ("--all-topics", "--all"),
    ("--reset-offsets", "--reset", "--seek"),
    ("--to-datetime", "--to-timestamp", "--to-time", "--to-date"),
    ("--to-offset", "--offset"),
    ("--time", "--timestamp"),
    ("--allow-principal", "--principal", "--user", "--allow"),
    ("--deny-principal", "--deny"),
    ("--operation", "--operations", "--permission"),
    ("--resource-pattern-type", "--pattern-type", "--prefixed", "--prefix"),
    ("--election-type", "--type"),
    ("--all-topic-partitions", "--all-partitions", "--all"),
    ("--data", "--data-dir", "--dir", "--directory", "--log-dirs"),
    ("--to", "--path", "--output", "--output-dir", "--out", "--dest", "--destination", "--dir"),
    ("--from", "--path", "--input", "--input-dir", "--source", "--archive", "--dir"),
    ("--print-data-log", "--print-data", "--deep"),
)

# Flags of places in tools that take the place as a word alone, by what they call it.
_PLACES: Final = {
    "DIR": ("--data", "--data-dir", "--dir", "--directory", "--log-dirs", "--log-dir", "--path"),
    "CONFIG": ("--config", "--config-file", "--properties", "--properties-file", "--file"),
    "FILE": ("--file", "--input", "--path"),
    "DIRECTORY": ("--dir", "--directory", "--path"),
}

# Words for the same action in different tools.
_SAME_WORDS: Final = (
    ("run", "start", "launch", "submit", "up"),
    ("start", "run", "up"),
    ("stop", "kill", "end", "down", "cancel"),
    ("list", "ls", "show", "all"),
    ("status", "describe", "show", "info", "state", "ps"),
)

# Properties that users spell as flags, and the flags that take them.
_PRINTED: Final = ("key", "value", "headers", "timestamp", "partition", "offset", "epoch")
_AS_PROPERTIES: Final = {
    **{f"--print-{part}": ("--formatter-property", f"print.{part}=true") for part in _PRINTED},
    "--key-separator": ("--formatter-property", "key.separator=:"),
    "--line-separator": ("--formatter-property", "line.separator=..."),
    "--parse-key": ("--reader-property", "parse.key=true"),
    "--parse-headers": ("--reader-property", "parse.headers=true"),
    "--null-marker": ("--reader-property", "null.marker=NULL"),
}
# Flags that no flag of a tool stands for, and what to do. Each table is for tools with its flag.
_INPUT: Final = "lines of standard input become records"
_EXPLAINED: Final = {
    "--reader-property": {
        **dict.fromkeys(
            ("--file", "--input", "--from-file", "--input-file"),
            f"{_INPUT}: odradek console-producer --topic NAME < FILE",
        ),
        **dict.fromkeys(
            ("--message", "--value", "--record", "--payload", "--data", "--body"),
            f"{_INPUT}: echo hello | odradek console-producer --topic NAME",
        ),
        "--key": f"{_INPUT}, with their keys: echo ada:7 | odradek console-producer --topic NAME"
        " --reader-property parse.key=true --reader-property key.separator=:",
        "--partition": "keys choose partitions: --reader-property parse.key=true",
    },
    "--offset-json-file": dict.fromkeys(
        ("--topic", "--partition", "--offset", "--to-offset", "--before"),
        'a file says which: echo \'{"partitions": [{"topic": "NAME", "partition": 0,'
        ' "offset": -1}]}\' > records.json, and then --offset-json-file records.json',
    ),
    "--to-topic": {"--to": "--from DIRECTORY names the archive, --to-topic NAME another topic"},
    "--override": {
        "--port": "write --override listeners=PLAINTEXT://127.0.0.1:9095, or odradek up --port 9095"
    },
    "--under-replicated-partitions": dict.fromkeys(
        ("--purge", "--truncate", "--clear", "--empty"),
        "odradek delete-records deletes records and keeps the topic; --delete deletes the topic",
    ),
}
_READER: Final = {"--key-separator": ("--reader-property", "key.separator=:")}


def probably_meant(flag: str, known: Collection[str]) -> str:
    """Returns `; did you mean X?` for a flag that a tool with the flags `known` does not have, or
    nothing."""
    near = Speller(known).nearest(flag)
    meant = near or _same(flag, known) or _as_property(flag, known)
    if meant is None:
        # Without the dashes, in which all flags are alike.
        word = nearest(flag.lstrip("-"), [name.lstrip("-") for name in known])
        meant = word and f"--{word}"
    return f"; did you mean {meant}?" if meant else ""


def is_place(flag: str, metavar: str) -> bool:
    """Returns whether a flag that a tool does not have names a place that the tool takes as a word
    alone, which its help calls `metavar`."""
    return "--" + flag.lstrip("-").replace("_", "-") in _PLACES.get(metavar, ())


def explained(flag: str, known: Collection[str]) -> str | None:
    """Returns what to do instead of giving a flag that a tool with the flags `known` has in no form
    at all, or None."""
    for marker, habits in _EXPLAINED.items():
        if marker in known and flag in habits and flag not in known:
            return habits[flag]
    return None


def word_meant(word: str, choices: Collection[str]) -> str:
    """Returns `; did you mean X?` for a word that is none of those that an argument takes, or
    nothing."""
    if "run" in choices and word.endswith((".toml", ".py")):
        return f"; did you mean run {shlex.quote(word)}?"
    for words in _SAME_WORDS:
        if word.lower() in words:
            for candidate in words:
                if candidate in choices:
                    return f"; did you mean {candidate}?"
    return did_you_mean(word, choices)


def flag_before(word: str, known: Collection[str], given: Collection[str]) -> str:
    """Returns the end of the sentence about a word that stands without a flag, in a tool with the
    flags `known` that takes none: `; did you mean --create?`, or nothing. `given` are the flags of
    the command line, which were not forgotten."""
    if f"--{word}" in known:
        return f"; did you mean --{word}?"
    if ":" in word and word.rpartition(":")[2].isdecimal() and "--bootstrap-server" in known:
        return "; write several addresses with commas between, as in --bootstrap-server A:1,B:1"
    if word.rstrip().endswith(";") and "--execute" in known:
        flags: tuple[str, ...] = ("--execute",)  # `odradek sql 'SHOW STREAMS;'`
    elif "://" in word:
        flags = ("--server", "--worker", "--registry")  # `ksql http://localhost:8088`
    elif "=" in word:
        flags = _taker_of(word.partition("=")[0])
    elif word.isdecimal():
        flags = ("--id", "--broker", "--partitions", "--partition", "--key")
    else:
        flags = ("--topic", "--group", "--key", "--files", "--data")
    for flag in flags:
        if flag in known and (flag not in given or "=" in word):
            return f"; did you mean {flag} {shlex.quote(word)}?"
    return ""


def _taker_of(name: str) -> tuple[str, ...]:
    """Returns the flags that take a property of this name, the likeliest first."""
    if name.startswith("print."):
        return ("--formatter-property",)
    if name.startswith("parse."):
        return ("--reader-property",)
    if name == "key.separator":
        return ("--reader-property", "--formatter-property")
    return ("--add-config", "--config", "--override", "--command-property")


def _same(flag: str, known: Collection[str]) -> str | None:
    two_dashes = "--" + flag.lstrip("-").lower().replace("_", "-")
    for flags in _SAME:
        if two_dashes in flags:
            for candidate in flags:
                if candidate in known:
                    return candidate
    return None


def _as_property(flag: str, known: Collection[str]) -> str | None:
    for habits in (_AS_PROPERTIES, _READER):
        taker, value = habits.get(flag, ("", ""))
        if taker in known:
            return f"{taker} {value}"
    name = flag.lstrip("-").replace("-", ".").replace("_", ".").lower()
    if "--add-config" in known or "--config" in known:
        from odradek.config.topic_settings import TopicSettings

        if name in TopicSettings.declared:
            taker = "--add-config" if "--add-config" in known else "--config"
            return f"{taker} {name}=VALUE"
    if "--command-property" in known:
        from odradek.cli.completion_values import client_keys

        if name in client_keys():
            return f"--command-property {name}=VALUE"
    return None
