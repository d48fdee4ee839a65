"""One answer for every misspelt key that a user can type: the nearest name, or all there are."""

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
