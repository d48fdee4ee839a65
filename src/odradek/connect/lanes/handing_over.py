"""What another process gets to know of its tasks: their properties, and what the worker gives them.

It goes from the worker to its own children, or through Spark to those of its Python processes that
do the work, as one text. Secrets are in it: it is written to no file, and Spark hides the option
that has it.
"""

import asyncio
import base64
import pickle
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from odradek.connect import plugins
from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.engine import TaskId, TaskListener, TaskSpec
from odradek.connect.errors import ConnectError

OPTION: Final = "connectsecret"
"""Spark hides options with this word in their names."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    tasks: Sequence[TaskSpec]
    context: EngineContext

    def to_text(self) -> str:
        return base64.b64encode(pickle.dumps((self, plugins.tables()))).decode()

    @staticmethod
    def of(text: str) -> "HandedOver":
        """What is installed in the worker is installed here too afterwards."""
        found, tables = pickle.loads(base64.b64decode(text))  # noqa: S301 - of the worker itself
        plugins.install(tables)
        assert isinstance(found, HandedOver)
        return found


def kafka_options(properties: Mapping[str, object]) -> dict[str, str]:
    """Returns properties of a client as options of the data source `odradek`."""
    return {
        f"kafka.{name}": str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in properties.items()
    }


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Surrounds a call of a connector. Raises `ConnectError` if it does not return in time."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise ConnectError(f"a call has not returned for {seconds:g} s") from error


class SilentListener(TaskListener):
    """For an engine that is only asked to make things."""

    def running(self, task: TaskId) -> None:
        """Nobody asks."""

    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        """Whoever called gets the exception."""

    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        """Nobody asks."""

    def stopped(self, task: TaskId) -> None:
        """Nobody asks."""

    def used_topic(self, task: TaskId, topic: str) -> None:
        """Nobody asks."""
