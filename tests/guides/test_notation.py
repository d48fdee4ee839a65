"""The notation of pages: what a block is, what a command is, what may differ."""

import pytest

from tests.guides.expected_output import matches
from tests.guides.markdown import Kind, NotationError, blocks
from tests.guides.transcript import Step, steps


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("```\n$ odradek up\n```\n", Kind.SESSION),
        ("```python\nprint()\n```\n", Kind.PYTHON),
        ("```\na --> b\n```\n", Kind.TEXT),
        ("```properties\nnode.id=1\n```\n", Kind.TEXT),
        ("<!-- not run: too long -->\n```\nodradek up\n```\n", Kind.NOT_RUN),
        ("<!-- file: a.json -->\n```json\n{}\n```\n", Kind.FILE),
        ("<!-- prints -->\n```\n1\n```\n", Kind.OUTPUT),
        ("<!-- Ctrl-C -->\n", Kind.CTRL_C),
    ],
)
def test_kinds_of_blocks(page: str, kind: Kind) -> None:
    (block,) = blocks(page)
    assert block.kind is kind


@pytest.mark.parametrize(
    "page",
    [
        "```\nodradek up\n```\n",  # a command without its sign
        "<!-- not runn: x -->\n```\n$ ls\n```\n",
        "<!-- not run: -->\n```\n$ ls\n```\n",  # no reason
        "<!-- background -->\ntext\n```\n$ ls\n```\n",
        "<!-- background -->\n",
    ],
)
def test_what_does_not_follow_the_notation_is_refused(page: str) -> None:
    with pytest.raises(NotationError):
        list(blocks(page))


def test_commands_and_what_they_print() -> None:
    text = "$ one \\\n  --flag\nfirst\n\nlast\n$ cat <<E\n> text\n> E\n$ odradek topics x\n"
    assert steps(text) == [
        Step("one \\\n  --flag", "first\n\nlast\n"),
        Step("cat <<E\ntext\nE", ""),
        Step("odradek topics x", ""),
    ]
    assert [step.compares for step in steps("$ one\n$ two\n")] == [False, False]


def test_a_command_that_shows_an_error_must_fail() -> None:
    assert Step("odradek topics --list", "odradek topics: no broker\n").must_fail
    assert not Step("odradek topics --list", "orders\n").must_fail


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("[2026-11-15 11:25:46,316] INFO\n", "[2027-01-02 03:04:05,678] INFO\n"),
        ("after 0.764 s\n", "after 12 s\n"),
        ("orders: 18.9 kB each\n", "orders: 1.2 GB each\n"),
        ("(process 4711)\n", "(process 17)\n"),
        ("TopicId: Xa3bC4d5E6f7G8h9I0jKlM\n", "TopicId: aaaaaaaaaaBBBBBBBBBB12\n"),
        ("a   b\n", "a b  \n"),
        ("ready ...; Ctrl-C\n", "ready at 127.0.0.1; Ctrl-C\n"),
        ("...\nlast\n", "one\ntwo\nlast\n"),
        ("...\nlast\n", "last\n"),
        ("Leader: 3\tReplicas: 3,1,2\tIsr: 3,1\n", "Leader: 1\tReplicas: 1,2,3\tIsr: 1,3\n"),
    ],
)
def test_what_may_differ(shown: str, printed: str) -> None:
    assert matches(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("", "a\n"),
        ("a\n", ""),
        ("a\n", "a\nb\n"),
        ("offset 3\n", "offset 4\n"),
        ("Isr: 3,1\n", "Isr: 3,1,2\n"),
        ("a b\n", "ab\n"),
        ("1 s\n", "1 second\n"),
    ],
)
def test_what_may_not(shown: str, printed: str) -> None:
    assert not matches(shown, printed)
