"""Each function in a table of decisions answers with the reply type that its command names."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from odradek.config import BrokerSettings
from odradek.groups.consumer.coordinator import ConsumerGroups
from odradek.groups.machine import GroupMachine
from odradek.statemachine.machine import Caller, Command
from odradek.transactions.machine import TransactionMachine


def tables() -> list[tuple[type[Command[Any]], Callable[..., object]]]:
    settings = BrokerSettings.from_properties({})
    groups = GroupMachine(settings, str, (ConsumerGroups(settings, str),))
    transactions = TransactionMachine(max_timeout_ms=1, expiration_ms=1, sweep_ms=1)
    return [*groups.decisions._by_type.items(), *transactions.decisions._by_type.items()]


def reply_type(command: type[Command[Any]]) -> object:
    (base,) = (base for base in command.__orig_bases__ if get_args(base))  # type: ignore[attr-defined]
    return get_args(base)[0]


def answered_type(decide: Callable[..., object]) -> object:
    function = decide.func if isinstance(decide, partial) else decide
    (caller,) = (
        option
        for option in get_args(get_type_hints(function)["caller"])
        if get_origin(option) is Caller
    )
    return get_args(caller)[0]


@pytest.mark.parametrize(
    ("command", "decide"), tables(), ids=[command.__name__ for command, _ in tables()]
)
def test_a_decision_answers_what_its_command_names(
    command: type[Command[Any]], decide: Callable[..., object]
) -> None:
    answered = answered_type(decide)
    # The four commands of classic members share one function, which passes the caller on.
    assert answered == reply_type(command) or answered is Any
