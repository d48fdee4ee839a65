"""Parses the states and types of groups that flags give."""

from odradek.config.spelling import did_you_mean
from odradek.tools.failures import UsageError

GROUP_STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
CONSUMER_GROUP_TYPES = ("Classic", "Consumer")
GROUP_TYPES = (*CONSUMER_GROUP_TYPES, "Share", "Streams")


def parse_states(text: str | None) -> list[str]:
    return _parse_names("state", text, GROUP_STATES)


def parse_types(text: str | None, known: tuple[str, ...] = CONSUMER_GROUP_TYPES) -> list[str]:
    return _parse_names("type", text, known)


def _parse_names(noun: str, text: str | None, known: tuple[str, ...]) -> list[str]:
    """Returns the names between commas in the brokers' spelling; an empty list means all."""
    spellings = {name.lower(): name for name in known}
    names: list[str] = []
    for word in map(str.strip, (text or "").split(",")):
        if not word and not text:
            continue
        if word.lower() not in spellings:
            near = did_you_mean(word, known) or f"; there are {', '.join(known)}"
            raise UsageError(f"{word!r} is not a {noun} of groups{near}")
        names.append(spellings[word.lower()])
    return names


def who_is_active(members: list[tuple[str, str, int]]) -> str:
    """Describes members as `client at host (n partitions)`; of many, only the first few."""
    shown = [
        f"{client} at {host.removeprefix('/')} ({count} partition{'' if count == 1 else 's'})"
        for client, host, count in members[:3]
    ]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
