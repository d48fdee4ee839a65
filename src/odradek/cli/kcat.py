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
    given = {flag[1:]: value for flag, value in options}
    if "P" in given:
        words = ["console-producer", *_connection(given), *_topic(given), *_key_reading(given)]
    elif "C" in given or "G" in given:
        words = ["console-consumer", *_connection(given), *_topic(given, rest), *_reading(given)]
    elif "L" in given:
        words = [
            "topics",
            "--describe",
            *_connection(given),
            *(_topic(given) if "t" in given else ()),
        ]
    elif "Q" in given:
        words = ["get-offsets", *_connection(given), *_offsets_asked(given)]
    else:
        return _EVERY_USE
    return shlex.join(["odradek", *words, *(["--json"] if "J" in given and "L" in given else [])])


def _connection(given: dict[str, str]) -> list[str]:
    words = ["--bootstrap-server", given["b"]] if "b" in given else []
    if "F" in given:
        words += ["--command-config", given["F"]]
    if "=" in given.get("X", ""):
        words += ["--command-property", given["X"]]
    return words


def _topic(given: dict[str, str], rest: Sequence[str] = ()) -> list[str]:
    return ["--topic", given.get("t") or next(iter(rest), "TOPIC")]


def _key_reading(given: dict[str, str]) -> list[str]:
    words = []
    if "K" in given:
        words = ["--reader-property", "parse.key=true"]
        words += ["--reader-property", f"key.separator={given['K']}"]
    if "z" in given:
        words += ["--compression-codec", given["z"]]
    return words


def _reading(given: dict[str, str]) -> list[str]:
    words = ["--group", given["G"]] if "G" in given else []
    start = given.get("o", "beginning")
    if "p" in given:
        offset = {"beginning": "earliest", "end": "latest"}.get(start, start)
        words += ["--partition", given["p"], "--offset", offset]
    elif start == "beginning" and "G" not in given:
        words.append("--from-beginning")
    if "c" in given:
        words += ["--max-messages", given["c"]]
    if "e" in given:
        words += ["--timeout-ms", "1000"]
    if "K" in given:
        words += ["--formatter-property", "print.key=true"]
        words += ["--formatter-property", f"key.separator={given['K']}"]
    return words


def _offsets_asked(given: dict[str, str]) -> list[str]:
    topic, _, rest = given.get("t", "TOPIC").partition(":")
    partition, _, time = rest.partition(":")
    words = ["--topic-partitions", f"{topic}:{partition}" if partition else topic]
    return [*words, "--time", time] if time else words
