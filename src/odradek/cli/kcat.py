"""Says which command of ours does what a `kcat` (formerly kafkacat) command line asks for.

kcat itself works with our brokers. Its flags differ from Kafka's tools in so many ways that they
are translated for the user to see and not carried out.
"""

import getopt
import shlex
from collections.abc import Sequence

_FLAGS = "PCLQAMhVeEJlquvTZOUb:t:p:o:K:D:c:f:z:X:F:k:G:s:r:d:m:a:H:S:i:"
_EVERY_USE = (
    "odradek console-producer (-P), odradek console-consumer (-C, -G), odradek topics --describe"
    " (-L) or odradek get-offsets (-Q)"
)


def line_to_type(arguments: Sequence[str]) -> str:
    """Returns the command line that does the same, or the commands to choose from."""
    try:
        options, rest = getopt.gnu_getopt(list(arguments), _FLAGS)
    except getopt.GetoptError:
        return _EVERY_USE
    flags = {flag[1:]: value for flag, value in options}
    if "P" in flags:
        words = ["console-producer", *_connection(flags), *_topic(flags), *_key_reading(flags)]
    elif "C" in flags or "G" in flags:
        is_avro = flags.get("s", "").rpartition("=")[2] == "avro"
        # Without -r a registry on this machine is meant, which only this one looks for.
        command = "avro-console-consumer" if is_avro and "r" not in flags else "console-consumer"
        words = [command, *_connection(flags), *_topic(flags, rest), *_reading(flags)]
    elif "L" in flags:
        words = [
            "topics",
            "--describe",
            *_connection(flags),
            *(_topic(flags) if "t" in flags else ()),
        ]
    elif "Q" in flags:
        words = ["get-offsets", *_connection(flags), *_offset_flags(flags)]
    else:
        return _EVERY_USE
    return shlex.join(["odradek", *words, *(["--json"] if "J" in flags and "L" in flags else [])])


def _connection(flags: dict[str, str]) -> list[str]:
    words = ["--bootstrap-server", flags["b"]] if "b" in flags else []
    if "F" in flags:
        words += ["--command-config", flags["F"]]
    if "=" in flags.get("X", ""):
        words += ["--command-property", flags["X"]]
    return words


def _topic(flags: dict[str, str], rest: Sequence[str] = ()) -> list[str]:
    return ["--topic", flags.get("t") or next(iter(rest), "TOPIC")]


def _key_reading(flags: dict[str, str]) -> list[str]:
    words = []
    if "K" in flags:
        words = ["--reader-property", "parse.key=true"]
        words += ["--reader-property", f"key.separator={flags['K']}"]
    if "z" in flags:
        words += ["--compression-codec", flags["z"]]
    return words


def _reading(flags: dict[str, str]) -> list[str]:
    words = ["--group", flags["G"]] if "G" in flags else []
    start = flags.get("o", "beginning")
    if "p" in flags:
        offset = {"beginning": "earliest", "end": "latest"}.get(start, start)
        words += ["--partition", flags["p"], "--offset", offset]
    elif start == "beginning" and "G" not in flags:
        words.append("--from-beginning")
    if "c" in flags:
        words += ["--max-messages", flags["c"]]
    if "e" in flags:
        words += ["--timeout-ms", "1000"]
    # With -s avro kcat decodes by the registry of -r; our consumer does as soon as it has one.
    if "r" in flags:
        words += ["--command-property", f"schema.registry.url={flags['r']}"]
    if "K" in flags:
        words += ["--formatter-property", "print.key=true"]
        words += ["--formatter-property", f"key.separator={flags['K']}"]
    return words


def _offset_flags(flags: dict[str, str]) -> list[str]:
    topic, _, rest = flags.get("t", "TOPIC").partition(":")
    partition, _, time = rest.partition(":")
    words = ["--topic-partitions", f"{topic}:{partition}" if partition else topic]
    return [*words, "--time", time] if time else words
