"""Numbers and their nouns, and that nobody writes them without `counted`."""

import re
from pathlib import Path

import pytest

from odradek.wording import counted

SOURCE = Path(__file__).parents[2] / "src" / "odradek"
# A placeholder and a plural noun in one string.
PLURAL = re.compile(
    r"(?<![\w-])(?:\{[^{}\"]*\}|%d) "
    r"(?:partitions|topics|brokers|replicas|members|groups|files|batches|entries|gaps|lines|keys)\b"
)
# Kafka's own words, figures that are never 1, sums in the report of `odradek sizing`, and limits.
ALLOWED = {
    "cli/sizing/sizing.py",
    "cli/sizing/plan.py",
    "cli/replicas/reassign_actions.py",
    "cli/doctor/machine.py",
    "groups/consumer/group.py",
    "groups/consumer/topic_patterns.py",
    "cluster/new_replicas.py",
    "storage/key_index/run.py",
}


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 partitions"), (1, "1 partition"), (2, "2 partitions")]
)
def test_a_noun_agrees_with_its_number(count: int, said: str) -> None:
    assert counted(count, "partition") == said


def test_words_that_follow_agree_too() -> None:
    assert counted(1, "batch is", "batches are") == "1 batch is"
    assert counted(1000, "batch is", "batches are", spec=",") == "1,000 batches are"


def test_messages_use_it() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {match.group()}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in ALLOWED
        for match in PLURAL.finditer(path.read_text())
    ]
    assert found == [], "use odradek.wording.counted"
