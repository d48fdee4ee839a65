"""The names of the options of the source and the sink, and what is said about a wrong one.

`check_names` is called with the options as a user wrote them, except for their case: Spark passes
names in lower case to data sources that are written in Python. Messages show them as they are
written in the documentation.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.config.spelling import Speller, did_you_mean, nearest

PREFIX: Final = "kafka."
_SERVERS: Final = "kafka.bootstrap.servers"
# Client settings that the source decides itself: a value of the user would break it.
RESERVED_FOR_READING: Final = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "use commitOffsetsToGroup",
    "kafka.key.deserializer": "keys are binary: cast or decode the column",
    "kafka.value.deserializer": "values are binary: cast or decode the column",
    "kafka.interceptor.classes": "interceptors are not supported",
}
RESERVED_FOR_WRITING: Final = {
    "kafka.key.serializer": "keys are string or binary columns",
    "kafka.value.serializer": "values are string or binary columns",
    "kafka.transactional.id": "use transactionalIdPrefix",
    "kafka.enable.idempotence": "it is always on",
}
# The options that the source and the sink read, spelt as users write them.
_FOR_READING: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "commitOffsetsToGroup",
    "pushFilters",
    # Accepted without effect: they are for the consumers of Spark's own source.
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_FOR_WRITING: Final = (
    "topic",
    "deliveryGuarantee",
    "transactionalIdPrefix",
    "includeHeaders",
    # Options of Spark itself, which it passes on to the data source.
    "checkpointLocation",
    "queryName",
    "path",
)
# What users of other systems, or of the other direction, write for these options.
_SAME_MEANING: Final = {
    "brokers": _SERVERS,
    "servers": _SERVERS,
    "bootstrap": _SERVERS,
    "offsets": "startingOffsets",
}


class BadOption(ValueError):
    """An option has a wrong name or value; the message says which one and what to do."""


class _Direction(NamedTuple):
    """What is known about reading, or about writing."""

    name: str
    options: tuple[str, ...]
    reserved: Mapping[str, str]
    same_meaning: Mapping[str, str]
    client: type[ConsumerSettings] | type[ProducerSettings]

    def settings(self) -> set[str]:
        """Returns the names of client settings, without their prefix."""
        return {
            "group.id",
            *(name for name, _, _ in self.client.describe()),
            *(name.removeprefix(PREFIX) for name in self.reserved),
        }


_READING: Final = _Direction(
    "reading",
    _FOR_READING,
    RESERVED_FOR_READING,
    # `load("clicks")` sets the option `path`.
    {**_SAME_MEANING, **dict.fromkeys(("topic", "topics", "path"), "subscribe")},
    ConsumerSettings,
)
_WRITING: Final = _Direction(
    "writing",
    _FOR_WRITING,
    RESERVED_FOR_WRITING,
    {
        **_SAME_MEANING,
        **dict.fromkeys(("subscribe", "subscribePattern", "assign", "topics"), "topic"),
    },
    ProducerSettings,
)


def check_names(options: Mapping[str, str], *, is_reading: bool) -> None:
    """Refuses an option that does not exist.

    A client setting (`kafka.*`) is refused only if it looks like a misspelt one of ours: many
    settings exist only in Java's clients.
    """
    direction = _READING if is_reading else _WRITING
    known = {name.lower() for name in direction.options}
    for name in options:
        if name.lower().startswith(PREFIX):
            _check_setting(name, direction)
        elif name.lower() not in known:
            raise BadOption(_unknown(name, direction))


def check_word(name: str, text: str, words: tuple[str, ...], otherwise: str = "") -> str:
    """Returns which of the words the text is, whatever its case. `otherwise` says what else may be
    written."""
    if text.lower() in words:
        return text.lower()
    *firsts, last = [*words, otherwise] if otherwise else words
    raise BadOption(
        f"{name}={text}: must be {', '.join(firsts)} or {last}{did_you_mean(text, words)}"
    )


def _check_setting(name: str, direction: _Direction) -> None:
    setting = name.lower().removeprefix(PREFIX)
    existing = direction.settings()
    near = None if setting in existing else Speller(existing).nearest(setting)
    if near is not None:
        raise BadOption(f"there is no setting {name}; did you mean {PREFIX}{near}?")


def check_path(options: Mapping[str, str]) -> None:
    """Refuses `save("clicks")` for a batch: a topic is not a path."""
    values = {name.lower(): value for name, value in options.items()}
    if values.get("path") and not values.get("topic"):
        topic = values["path"].rpartition("/")[2]
        raise BadOption(f"a topic is not a path: write option('topic', {topic!r}) and save()")


def _unknown(name: str, direction: _Direction) -> str:
    """Returns what to say about an option that does not exist: the most certain guess first."""
    opposite = _WRITING if direction is _READING else _READING
    meant = _same_letters(name, direction.same_meaning)
    todo = f"write {direction.same_meaning[meant]}" if meant else "leave it out"
    foreign = _same_letters(name, opposite.options)
    if foreign is not None and foreign != "path":
        return f"{foreign} is an option for {opposite.name}; for {direction.name}, {todo}"
    if meant is not None:
        return f"there is no option {meant}; {todo}"
    settings = sorted(direction.settings())
    if (setting := _same_letters(name, settings)) is not None:
        full = PREFIX + setting
        return f"there is no option {name}; {direction.reserved.get(full) or f'write {full}'}"
    near = _same_letters(name, direction.options) or nearest(name, direction.options)
    if near is not None:
        return f"there is no option {_as_written(name, near)}; did you mean {near}?"
    if (setting := Speller(settings).nearest(name)) is not None:
        return f"there is no option {name}; did you mean {PREFIX}{setting}?"
    known = ", ".join([_SERVERS, *direction.options])
    return f"there is no option {name}; known are {known}, and kafka.* for the client"


def _same_letters(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that differs at most in case, dots, dashes and underscores, as
    `bootstrapServers` from `bootstrap.servers`."""
    letters = _letters(name)
    return next((one for one in known if _letters(one) == letters), None)


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _as_written(name: str, near: str) -> str:
    """Returns a misspelt name with the capital letters of the name that was meant, if it has none:
    Spark has probably made them small."""
    if name != name.lower():
        return name
    from difflib import SequenceMatcher  # noqa: PLC0415 - 5 ms, and only for mistakes

    letters = list(name)
    for block in SequenceMatcher(None, name, near.lower()).get_matching_blocks():
        letters[block.a : block.a + block.size] = near[block.b : block.b + block.size]
    return "".join(letters)
