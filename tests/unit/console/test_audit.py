"""The form of the audit log, as a filter over events."""

from typing import Any

import pytest

from odradek.console.asking import BadForm, Form
from odradek.console.pages.audit import expression
from odradek.console.records.expression import Filter

DENIED = {
    "event": "authorization", "result": "denied", "principal": "User:ada", "api": "Produce",
    "operation": "Write", "resource": "shop-orders",
}  # fmt: skip
MADE = {
    "event": "change", "result": "success", "principal": "User:it's \"me\"", "api": "CreateTopics",
    "resource": "payroll",
}  # fmt: skip
FAILED = {"event": "authentication", "result": "failure", "principal": "-", "api": "SaslHandshake"}
GAP = {"event": "dropped", "count": 3}
ALL = (DENIED, MADE, FAILED, GAP)


def found(**fields: str) -> list[Any]:
    text = expression(Form(list(fields.items())))
    if not text:
        return list(ALL)
    return [one for one in ALL if Filter(text).matches({"value": one})]


@pytest.mark.parametrize(
    ("fields", "events"),
    [
        ({}, ALL),
        ({"principal": "ada"}, (DENIED,)),
        ({"principal": "User:a*"}, (DENIED,)),
        ({"principal": 'it\'s "me"'}, (MADE,)),
        ({"principal": "') or True or like(key, '"}, ()),
        ({"operation": "write"}, (DENIED,)),
        ({"operation": "createtopics"}, (MADE,)),
        ({"resource": "shop-*", "result": "denied"}, (DENIED,)),
        ({"resource": "shop-*", "result": "success"}, ()),
        ({"result": "refused"}, (DENIED, FAILED)),
        ({"result": "success"}, (MADE,)),
        ({"event": "dropped"}, (GAP,)),
    ],
)
def test_which_events_are_found(fields: dict[str, str], events: tuple[Any, ...]) -> None:
    assert found(**fields) == list(events)


def test_what_cannot_be_asked() -> None:
    for fields in ({"result": "x"}, {"event": "x"}, {"principal": "x" * 301}):
        with pytest.raises(BadForm):
            found(**fields)
