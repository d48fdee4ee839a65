"""Answers habits of aiokafka, kafka-python and confluent-kafka with the line to write here.

A method or keyword that another client has under another name raises `AttributeError` or
`TypeError` as Python would, but the message says what to write. Type checkers do not see this, so
a misspelt method fails there as usual.
"""

import asyncio
import inspect
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import CodeType, FunctionType
from typing import Final, NoReturn, ParamSpec, Self, TypeVar

from odradek.config.spelling import did_you_mean, nearest

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")
_log = logging.getLogger("odradek.client")

PRODUCER: Final = {
    "produce": "send(topic, value, key=key, on_delivery=function)",
    "poll": "nothing: deliveries are reported without it, by the future of send() or on_delivery",
    "send_batch": "send(): it makes batches by itself (batch_size, linger_ms)",
    "create_batch": "send(): it makes batches by itself (batch_size, linger_ms)",
    "partitions_for_topic": "partitions_for(topic)",
    "list_topics": "Admin(bootstrap_servers=...).list_topics()",
    "purge": "close(timeout_ms=0)",
    "begin": "begin_transaction()",
}
CONSUMER: Final = {
    "getone": "a loop: for record in consumer (async for with asyncio)",
    "getmany": "poll(timeout_ms=1000, max_records=500)",
    "consume": "poll(timeout_ms=1000, max_records=500)",
    "commit_sync": "commit()",
    "commitSync": "commit()",
    "commitAsync": "commit_async()",
    "store_offsets": "commit(offsets), with enable_auto_commit=False",
    "get_watermark_offsets": "beginning_offsets(partitions) and end_offsets(partitions)",
    "highwater": "high_watermark(partition)",
    "incremental_assign": "assign(all_partitions)",
    "incremental_unassign": "assign(the_others)",
    "list_topics": "Admin(bootstrap_servers=...).list_topics()",
    "memberid": "group_metadata()",
    "partitions_for_topic": "partitions_for(topic)",
    "seek_to_committed": "seek(partition, offset) with the offset of committed([partition])",
    "topics": "Admin(bootstrap_servers=...).list_topics()",
}
ADMIN: Final = {
    "alter_consumer_group_offsets": "alter_group_offsets(group_id, offsets)",
    "delete_consumer_groups": "delete_groups(group_ids)",
    "describe_consumer_groups": "describe_groups(group_ids)",
    "list_consumer_group_offsets": "list_group_offsets(group_id)",
    "list_consumer_groups": "list_groups()",
    "perform_leader_election": "elect_leaders(ElectionType.PREFERRED, partitions)",
    "poll": "nothing: each call waits for its answer",
}
LISTED_TOPICS: Final = {
    "topics": "list_topics() alone: it is a dict of topics by name",
    "brokers": "describe_cluster().brokers",
    "cluster_id": "describe_cluster().cluster_id",
    "controller_id": "describe_cluster().controller_id",
}
DELIVERY: Final = {
    "get": "result(timeout=10), in seconds",
    "add_callback": "add_done_callback(function), or send(..., on_delivery=function)",
    "add_errback": "add_done_callback(function), or send(..., on_delivery=function)",
    "is_done": "done()",
    "succeeded": "done(), and exception() is None",
    "failed": "done(), and exception() is not None",
    "topic": "result().topic",
    "partition": "result().partition",
    "offset": "result().offset",
    "timestamp_ms": "result().timestamp_ms",
}
RECORD: Final = {
    "timestamp": "timestamp_ms",
    "error": "nothing: poll() raises errors, and records have none",
    "checksum": "nothing: the consumer checks it (check_crcs)",
    "serialized_key_size": "len(record.key)",
    "serialized_value_size": "len(record.value)",
}
_ALL_POLLED: Final = (
    "poll() returns lists of records by partition: write `for records in polled.values():` and in"
    " it `for record in records:`"
)
POLLED: Final = dict.fromkeys(
    ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "error"), _ALL_POLLED
)
PARTITION: Final = dict.fromkeys(("key", "value", "headers", "timestamp"), _ALL_POLLED)
# Methods of confluent-kafka's messages, which are attributes of our records.
_CALLED_ATTRIBUTE: Final = re.compile(
    r"\.(topic|partition|offset|key|value|headers|leader_epoch|timestamp_ms)\(\)"
)
# The end of Python's message, what the line of the program has, and what to write.
_PYTHONS_WORDS: Final = (
    (
        "object is not callable",
        _CALLED_ATTRIBUTE,
        "Fields of a record are attributes: write record.{}",
    ),
    (
        "can't be used in 'await' expression",
        re.compile(r"await\s+[\w.]+\.(\w+)\("),
        "{}() is not awaited: leave `await` out",
    ),
    (
        "does not support the context manager protocol",
        re.compile(r"with\s+[\w.]+\.(transaction)\(\)"),
        "With asyncio, write `async with producer.{}():`",
    ),
)
_OF_METADATA: Final = frozenset({"topic", "partition", "offset", "timestamp_ms"})
_OF_THIS_CLIENT: Final = __file__.removesuffix("habits.py")
_CLASSES: Final = {
    "AIOKafkaProducer": "Producer",
    "AIOKafkaConsumer": "Consumer",
    "KafkaProducer": "sync.Producer",
    "KafkaConsumer": "sync.Consumer",
    "SerializingProducer": "Producer",
    "DeserializingConsumer": "Consumer",
    "AvroProducer": "Producer",
    "AdminClient": "Admin",
    "AIOKafkaAdminClient": "Admin",
    "KafkaAdminClient": "sync.Admin",
    "ConsumerRebalanceListener": "RebalanceListener",
    "KafkaException": "KafkaError",
    "Message": "ConsumerRecord",
}


def raise_for_import(module: str, name: str, known: Iterable[str]) -> None:
    """Raises `ImportError` for a class of another client, or a misspelt one, with what to write.

    `from ... import` would hide an error of another kind.
    """
    ours = _CLASSES.get(name)
    if ours is not None:
        package, _, last = f"odradek.client.{ours}".rpartition(".")
        raise ImportError(f"{module} has no {name}: write `from {package} import {last}`")
    if name[:1].isupper() and (near := nearest(name, known)):
        raise ImportError(f"{module} has no {name}; did you mean {near}?")


class _Habit:
    """An attribute that is not there, and says what to write."""

    __slots__ = ("_line", "_name")

    def __init__(self, name: str, line: str) -> None:
        self._name = name
        self._line = line

    def __get__(self, instance: object, owner: type) -> Self:
        if instance is None:
            return self
        advice = self._line if self._line.startswith("poll()") else f"write {self._line}"
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: {advice}",
            name=self._name,
            obj=instance,
        )


def answers(habits: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """Decorates a class: attributes of other clients' classes are answered with what to write.

    There is no `__getattr__` for it, because that makes every attribute of the class slower.
    """

    def decorate(client: type[C]) -> type[C]:
        for name, line in habits.items():
            assert not hasattr(client, name), name
            setattr(client, name, _Habit(name, line))
        return client

    return decorate


def _explain_unawaited(error: AttributeError) -> None:
    """Adds which `await` is missing where a program uses what a call returned as its result."""
    given, added = error.obj, ""
    if isinstance(given, asyncio.Future) and error.name in _OF_METADATA:
        added = (
            "send() returns a future: await that too, or write `await producer.send_and_wait(...)`"
        )
    elif inspect.iscoroutine(given) and given.cr_code.co_filename.startswith(_OF_THIS_CLIENT):
        added = f"write `await` before {given.__name__}()"
    if added and added not in getattr(error, "__notes__", ()):
        error.add_note(added)


def explain(error: object) -> None:
    """Adds what to write to an error of Python's, raised where a program uses a client.

    Called at the end of a `with` block, by a `close` in a `finally`, and for what callbacks raise.
    What was used wrongly is not ours, and cannot answer by itself: the value of a record is bytes,
    or what a deserializer returned, and `subscribe` returns None.
    """
    if isinstance(error, AttributeError):
        _explain_unawaited(error)
    if not isinstance(error, TypeError):
        return
    said = str(error)
    for ending, pattern, note in _PYTHONS_WORDS:
        if said.endswith(ending):
            frames = traceback.extract_tb(error.__traceback__)
            found = pattern.search(frames[-1].line or "") if frames else None
            if found is not None:
                added = note.format(found[1])
                if added not in getattr(error, "__notes__", ()):
                    error.add_note(added)
            return


def awaits(client: type[C]) -> type[C]:
    """Decorates a client of asyncio: a plain `with` or `for` is answered with what to write."""
    name = client.__name__
    other = f"or without asyncio use odradek.client.sync.{name}"
    _refuse(client, "__enter__", "__exit__", f"write `async with {name}(...)`, {other}")
    if hasattr(client, "__aiter__"):
        _refuse(client, "__iter__", f"write `async for record in consumer`, {other}")
    return client


def waits(client: type[C]) -> type[C]:
    """Decorates a client without asyncio: `async with` and `async for` are answered likewise."""
    name = client.__name__
    other = f"or with asyncio use odradek.client.{name}"
    _refuse(client, "__aenter__", "__aexit__", f"write `with {name}(...)`, {other}")
    if hasattr(client, "__iter__"):
        _refuse(client, "__aiter__", f"write `for record in consumer`, {other}")
    return client


def _refuse(client: type, *methods_and_message: str) -> None:
    *methods, message = methods_and_message

    def refuse(*_: object) -> NoReturn:
        raise TypeError(message)

    for method in methods:
        setattr(client, method, refuse)


def unknown_argument(function: Callable[..., object], given: Iterable[str]) -> TypeError:
    """Returns the error of a call with keywords that a function does not have.

    For functions that are called too often for `answering`: they have `**others: Never`, which
    type checkers let nobody use, and call this if there are any.
    """
    name = next(iter(given))
    parameters = inspect.signature(function).parameters.values()
    known = [
        one.name
        for one in parameters
        if one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL} and one.name != "self"
    ]
    line = _ARGUMENTS[function.__name__].get(name)
    hint = did_you_mean(name, known) if line is None else f": write {line}"
    return TypeError(f"{function.__name__}() has no argument {name!r}{hint}")


_TIMESTAMP: Final = "timestamp_ms=int(time.time() * 1000)"
_CALLBACK: Final = "on_delivery=function; it is called with (metadata, error)"
_CALL_SEND: Final = "send(..., on_delivery=function): send_and_wait() waits for the delivery"
_ARGUMENTS: Final = {
    "send": {"callback": _CALLBACK, "timestamp": _TIMESTAMP},
    "send_and_wait": {
        "callback": _CALL_SEND,
        "on_delivery": _CALL_SEND,
        "timestamp": _TIMESTAMP,
    },
}


def names_known(client: type[C]) -> type[C]:
    """Decorates a class: an attribute that is nearly one of its names is answered with that name.

    Only for classes that are not used for every record, because `__getattr__` makes every attribute
    slower.
    """

    def answer(self: object, name: str) -> NoReturn:
        habit = getattr(client, name, None)
        if isinstance(habit, _Habit):
            habit.__get__(self, client)
        known = [
            one
            for one in dir(client)
            if not one.startswith("_") and not isinstance(getattr(client, one), _Habit)
        ]
        hint = "" if name.startswith("_") else did_you_mean(name, known)
        raise AttributeError(
            f"{client.__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self
        )

    setattr(client, "__getattr__", answer)  # noqa: B010 - type checkers must not see it
    return client


def answering(**answers: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a method: these keywords of other clients are answered with what to write."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        called = _called(function)
        own = _own_parameters(function)
        most = _max_positional(function)

        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> T:
            if most is not None and len(arguments) > most:
                raise too_many(function, arguments)
            for name in options:
                if name in answers or (own is not None and name not in own):
                    hint = (
                        f": {answers[name]}" if name in answers else did_you_mean(name, own or ())
                    )
                    raise TypeError(f"{called}() has no argument {name!r}{hint}")
            return function(*arguments, **options)

        return call

    return decorate


def _called(function: Callable[..., object]) -> str:
    """Returns what a program calls: of a constructor, the name of its class."""
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def _own_parameters(function: Callable[..., object]) -> tuple[str, ...] | None:
    """Returns the keywords that a function has, or None if it takes any."""
    code: CodeType = inspect.unwrap(function).__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _max_positional(function: Callable[..., object]) -> int | None:
    """Returns how many arguments a method takes without names, with `self`; None is any number."""
    code: CodeType = inspect.unwrap(function).__code__
    return None if code.co_flags & inspect.CO_VARARGS else code.co_argcount


def too_many(function: Callable[..., object], given: Sequence[object]) -> TypeError:
    """Returns the error of a call with more arguments than it takes without their names."""
    called = _called(function)
    code: CodeType = inspect.unwrap(function).__code__
    most, first_named = code.co_argcount, code.co_varnames[code.co_argcount :]
    named = first_named[: code.co_kwonlyargcount]
    if most == 2 and all(isinstance(one, str) for one in given[1:]):
        line = f"several go into a list: {called}({list(given[1:])!r})"
    elif named:
        line = f"write {called}(..., {named[0]}={given[most]!r:.40}) if that is meant"
    else:
        line = f"it takes {', '.join(code.co_varnames[1:most]) or 'none'}"
    return TypeError(f"{called}() got {len(given) - most} too many arguments: {line}")


def answering_everywhere(**answers: str) -> Callable[[type[C]], type[C]]:
    """Decorates a class: its methods answer these keywords, unless they have them."""

    def decorate(client: type[C]) -> type[C]:
        for name in dir(client):
            method = getattr(client, name)
            if name.startswith("_") or not isinstance(method, FunctionType):
                continue
            own = _own_parameters(method) or ()
            others = {word: line for word, line in answers.items() if word not in own}
            setattr(client, name, answering(**others)(method))
        return client

    return decorate


def answering_constructor(**answers: str) -> Callable[[type[C]], type[C]]:
    """Decorates a class: its constructor answers these keywords likewise."""

    def decorate(made: type[C]) -> type[C]:
        setattr(made, "__init__", answering(**answers)(vars(made)["__init__"]))  # noqa: B010
        return made

    return decorate


in_subscribe: Final = answering(
    on_assign="write subscribe(topics, listener=listener), see RebalanceListener",
    on_revoke="write subscribe(topics, listener=listener), see RebalanceListener",
    on_lost="write subscribe(topics, listener=listener), see RebalanceListener",
)
_in_poll: Final = answering(
    timeout="write poll(timeout_ms=1000) for a second; it returns lists of records by partition",
    num_messages="write poll(timeout_ms=1000, max_records=500)",
    update_offsets="leave it out",
)
# What other clients' programs say in seconds.
_FEW_MILLISECONDS: Final = 5


def in_poll(poll: Callable[P, T]) -> Callable[P, T]:
    """Decorates `poll`: answers keywords of other clients, and a time that looks like seconds.

    A program that means so few milliseconds gives them by name: `poll(timeout_ms=1)`.
    """
    checked = _in_poll(poll)

    @wraps(poll)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        if len(arguments) > 1:
            time_ms = arguments[1]
            if time_ms.__class__ is int and 0 < time_ms <= _FEW_MILLISECONDS:
                _warn_of_seconds(time_ms)
        return checked(*arguments, **options)

    return call


def _warn_of_seconds(time_ms: object) -> None:
    if time_ms not in _warned_times:
        _warned_times.add(time_ms)
        _log.warning(
            "poll(%s) waits %s ms, because it counts milliseconds: write poll(timeout_ms=%s000)"
            " for seconds, or poll(timeout_ms=%s) if it is meant so",
            *[time_ms] * 4,
        )


_warned_times: set[object] = set()
in_commit: Final = answering(
    timeout="write commit(timeout_ms=10_000) for ten seconds",
    message="write commit(record)",
    asynchronous="write commit() to wait, commit_async() not to wait",
)
in_flush: Final = answering(timeout="write flush(timeout_ms=10_000) for ten seconds")
in_close: Final = answering(
    timeout="write close(timeout_ms=10_000) for ten seconds",
    autocommit="write it as the setting enable_auto_commit",
)
_ALL_CALLS: Final = "write Admin(default_api_timeout_ms=10_000), which limits all calls"
in_admin: Final = answering_everywhere(
    timeout=_ALL_CALLS,
    timeout_ms=_ALL_CALLS,
    request_timeout=_ALL_CALLS,
    operation_timeout=_ALL_CALLS,
    new_topics="write create_topics([NewTopic(name, partitions=3)])",
    topic_partitions="write create_partitions({name: 6})",
    config_resources="give the resources first: describe_configs([resource])",
)
