"""The error that the task of a membership hands to poll()."""

import asyncio

from odradek.protocol.errors import ErrorCode, KafkaError, error_for


class MemberFault:
    """Holds the error until poll() raises it; both memberships have one.

    A fenced member stays fenced: its error is raised by every poll(). Any other error is raised
    once, and then the member joins again.
    """

    def __init__(self, group_id: str, instance_id: str | None) -> None:
        self._group_id = group_id
        self._instance_id = instance_id
        self._error: BaseException | None = None
        self._taken = asyncio.Event()

    def record(self, error: BaseException) -> None:
        """Makes `take` return the error. An error that fences the member says what to do."""
        if _is_fencing(error):
            error = error_for(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Another consumer of group {self._group_id} runs as group.instance.id="
                f"{self._instance_id}: give each its own, and close this one.",
            )
        self._error = error
        self._taken.clear()

    @property
    def is_final(self) -> bool:
        """Whether the member is fenced."""
        return self._error is not None and _is_fencing(self._error)

    def take(self) -> BaseException | None:
        """Returns the error that poll() must raise, if there is one."""
        error = self._error
        if error is not None and not self.is_final:
            self._error = None
            self._taken.set()
        return error

    async def wait_until_taken(self) -> None:
        """Returns when there is no error; never for a fenced member."""
        while self._error is not None:
            await self._taken.wait()


def _is_fencing(error: BaseException) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.FENCED_INSTANCE_ID
