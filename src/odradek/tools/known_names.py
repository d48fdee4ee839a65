"""One answer for every misspelt key that a user can type: the nearest name, or all there are; and
for its value, if that is true or false."""

from collections.abc import Collection, Iterable

from odradek.tools.failures import UsageError


def require_known(kind: str, typed: Iterable[str], known: Collection[str]) -> None:
    """Raises `UsageError` for the first typed name that does not exist. `kind` says what it names,
    such as `reader property`."""
    for name in typed:
        if name not in known:
            from odradek.config.spelling import did_you_mean

            near = did_you_mean(name, known)
            every = ", ".join(known)
            raise UsageError(f"no {kind} {name}{near or f'; there are {every}'}")


def is_true(kind: str, name: str, text: str) -> bool:
    """Returns whether the value of a property is true. Raises `UsageError` for a value that is
    neither true nor false: Kafka's tools take `yes` for false, and say nothing."""
    value = text.strip().lower()
    if value not in {"true", "false"}:
        raise UsageError(f"{kind} {name} is true or false, not {text!r}")
    return value == "true"
