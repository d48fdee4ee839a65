"""Subjects and the contexts that they are in.

A context is a name space of its own: the same id and the same subject may mean something else in
another context. `:.ctx:subject` is the subject `subject` in the context `.ctx`, and a subject
without that prefix is in the default context `.`. `:.ctx:` alone stands for the whole context, for
instance when its mode is changed. `:*:` stands for all contexts.
"""

from typing import Final, NamedTuple

DEFAULT_CONTEXT: Final = "."
GLOBAL_SUBJECT: Final = ":.__GLOBAL:"
ALL_CONTEXTS: Final = ":*:"
_PREFIX: Final = ":."
_MAX_LENGTH: Final = 10_000
# Confluent's registry keeps these for itself.
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})


class Qualified(NamedTuple):
    """A subject and its context. `subject` is empty if a whole context is meant."""

    context: str
    subject: str

    def __str__(self) -> str:
        """Returns the subject as clients and the topic write it."""
        if self.context == DEFAULT_CONTEXT:
            return self.subject
        return f":{self.context}:{self.subject}"


def qualified(subject: str) -> Qualified:
    """Splits a subject as clients write it."""
    if subject.startswith(_PREFIX):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return Qualified(context, name)
        return Qualified(context, "")
    return Qualified(DEFAULT_CONTEXT, subject)


def normal(subject: str) -> str:
    """Returns the one way to write a subject: without a prefix in the default context."""
    return str(qualified(subject))


def in_context(context: str, subject: str) -> str:
    """Returns a subject as a path below `/contexts/{context}` means it. A subject that names its
    context keeps it."""
    if subject.startswith((_PREFIX, ALL_CONTEXTS)):
        return subject
    return str(Qualified(context_name(context), subject))


def context_name(text: str) -> str:
    """Returns the name of a context from `.ctx`, `ctx` or `:.ctx:`."""
    name = text.strip(":")
    return name if name.startswith(".") else f".{name}"


def relative(parent: str, subject: str) -> str:
    """Returns the subject that a schema under `parent` refers to: in the context of the parent,
    unless it names one."""
    if subject.startswith(_PREFIX):
        return normal(subject)
    return str(Qualified(qualified(parent).context, subject))


def is_valid(subject: str) -> bool:
    """Returns whether a schema may be registered under this name."""
    name = qualified(subject)
    if name.subject in _RESERVED or len(subject) > _MAX_LENGTH:
        return False
    return bool(name.subject) and not any(ord(character) < 32 for character in subject)


def is_whole_context(subject: str) -> bool:
    return subject.startswith(_PREFIX) and not qualified(subject).subject


def matches(prefix: str, subject: str) -> bool:
    """Returns whether a subject begins with a prefix that clients give: `:*:x` looks in all
    contexts, `x` in the default context alone."""
    if prefix.startswith(ALL_CONTEXTS):
        return qualified(subject).subject.startswith(prefix[len(ALL_CONTEXTS) :])
    wanted, name = qualified(prefix), qualified(subject)
    return name.context == wanted.context and name.subject.startswith(wanted.subject)
