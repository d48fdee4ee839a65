"""Words for people in messages and logs."""


def counted(count: int, singular: str, plural: str | None = None, *, spec: str = "") -> str:
    """A number with its noun: `1 partition`, `2 partitions`.

    `many` is what stands behind any number but 1, `one` with an s unless it is given: it may hold
    the verb too, as in `counted(left, "record is", "records are")`. `spec` formats the number.
    """
    return f"{count:{spec}} {singular if count == 1 else plural or f'{singular}s'}"
