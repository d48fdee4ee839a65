"""Where a key or a value belongs to, with confluent-kafka's names.

Our own clients pass a context of their own, which has the same attributes.
"""

from typing import Any, Final


class MessageField:
    KEY: Final = "key"
    VALUE: Final = "value"


class SerializationContext:
    """`headers` is a list of pairs, to which a serializer may append, or a dict."""

    __slots__ = ("field", "headers", "topic")

    def __init__(self, topic: str, field: str, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers
