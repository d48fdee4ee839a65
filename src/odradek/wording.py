"""Wording of messages and logs."""


def counted(count: int, singular: str, plural: str | None = None, *, spec: str = "") -> str:
    """Returns a number with its noun: `1 partition`, `2 partitions`.

    `plural` is used for any number but 1; by default it is `singular` with an s. Both may contain a
    verb, as in `counted(left, "record is", "records are")`. `spec` formats the number.
    """
    return f"{count:{spec}} {singular if count == 1 else plural or f'{singular}s'}"


def kind_of(value: object) -> str:
    """Returns the type of a value that was given by mistake, as in `must be a str, not int`."""
    return "None" if value is None else type(value).__name__
