"""Wording of messages and logs."""


def counted(count: int, singular: str, plural: str | None = None, *, spec: str = "") -> str:
    """Returns a number with its noun: `1 partition`, `2 partitions`.

    `plural` is used for any number but 1; by default it is `singular` with an s. Both may contain a
    verb, as in `counted(left, "record is", "records are")`. `spec` formats the number.
    """
    return f"{count:{spec}} {singular if count == 1 else plural or f'{singular}s'}"


def shortened(text: str, most: int = 1000) -> str:
    """Returns a text from outside for a log: as it is, or its beginning and how long it was. A name
    may be as long as a request, and must not fill a disk or a memory."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def kind_of(value: object) -> str:
    """Returns the type of a value that was given by mistake, as in `must be a str, not int`."""
    return "None" if value is None else type(value).__name__
