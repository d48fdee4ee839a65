"""Where a consumer reads: positions are moved, asked for, and held while a partition is paused."""

import asyncio
from abc import abstractmethod
from collections.abc import Iterable

from odradek.client import arguments
from odradek.client.arguments import GivenPartition, GivenPartitions
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.not_assigned import explain_missing, explain_nothing
from odradek.client.consumer.positions import PartitionState, Positions
from odradek.client.consumer.queries import ConsumerQueries
from odradek.client.consumer.undelivered import Undelivered
from odradek.client.errors import ClientError, DeserializerUnavailable, OffsetOutOfRange
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.client.retry import deadline
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition

_MAY_PASS = (KafkaError, OffsetOutOfRange, DeserializerUnavailable)


class ConsumerSeeking(ConsumerQueries):
    """The part of `Consumer` that moves positions."""

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings)
        self._undelivered = Undelivered()
        # Whether the program has called `assign`, perhaps with an empty list.
        self._is_assigned_by_hand = False

    @property
    def _positions(self) -> Positions:
        return self._parts().positions

    @abstractmethod
    def _give_back_undelivered(self) -> None:
        """Moves the positions back to records that the iterator has not returned yet."""

    def _checked_fetcher(self) -> Fetcher:
        """Returns the fetcher, or raises the error that ended it."""
        parts = self._parts()
        parts.check()
        return parts.fetcher

    def seek(self, partition: GivenPartition, offset: int, leader_epoch: int = -1) -> None:
        """Moves the position to `offset`, which is the next one to be read."""
        position = Offset(arguments.offset(offset, "seek()"))
        epoch = LeaderEpoch(
            arguments.integer(leader_epoch, "seek()", "leader_epoch", at_most=arguments.MAX_INT)
        )
        state = self._state(partition, "seek()")
        self._give_back_undelivered()
        state.seek(position, epoch)
        self._parts().positions_changed()

    def seek_to_beginning(
        self, partitions: GivenPartitions | None = None, *more: GivenPartition
    ) -> None:
        """Moves to the first record; in all assigned partitions unless some are named."""
        self._seek_to_time(partitions, more, EARLIEST, "seek_to_beginning()")

    def seek_to_end(self, partitions: GivenPartitions | None = None, *more: GivenPartition) -> None:
        """Moves to the end of the log; in all assigned partitions unless some are named."""
        self._seek_to_time(partitions, more, LATEST, "seek_to_end()")

    def seek_to_timestamp(
        self, timestamp_ms: int, partitions: GivenPartitions | None = None
    ) -> None:
        """Moves to the first record that is not older, or to the end if all are older."""
        timestamp_ms = arguments.timestamp(timestamp_ms, "seek_to_timestamp()")
        self._seek_to_time(partitions, (), timestamp_ms, "seek_to_timestamp()")

    def _seek_to_time(
        self,
        partitions: GivenPartitions | None,
        more: Iterable[GivenPartition],
        timestamp: int,
        call: str,
    ) -> None:
        if partitions is None:
            states = list(self._positions.assigned.values())
            if not states and not self._is_assigned_by_hand:
                advice = explain_nothing(call, self._parts().group)
                if advice is not None:
                    raise ValueError(advice)
        else:
            states = self._states((partitions, *more), call)
        self._give_back_undelivered()
        for state in states:
            state.request_reset(timestamp)
        self._parts().fetcher.wake()

    def pause(self, *partitions: GivenPartitions) -> None:
        """Returns no records of these partitions until `resume`; positions stay."""
        states = self._states(partitions, "pause()")
        self._give_back_undelivered()
        for state in states:
            state.is_paused = True

    def resume(self, *partitions: GivenPartitions) -> None:
        """Ends a pause; a poll() that waits returns records that were fetched before."""
        for state in self._states(partitions, "resume()"):
            state.is_paused = False
        self._parts().positions_changed()

    def paused(self) -> list[TopicPartition]:
        """Returns the partitions of which `pause` holds back records."""
        return [
            partition for partition, state in self._positions.assigned.items() if state.is_paused
        ]

    async def position(self, partition: GivenPartition) -> Offset:
        """Returns the offset of the next record to read, and looks it up first if necessary."""
        state = self._state(partition, "position()")
        if (undelivered := self._undelivered.first_offset(state.partition)) is not None:
            return undelivered
        limit_ms = self.settings.default_api_timeout_ms

        def describe() -> tuple[str, BaseException | None]:
            cause = self._parts().waits_for()
            missing = f"the position of {state.partition} could not be looked up"
            return f"{missing} within {limit_ms} ms: {cause or 'no answer'}", cause

        async with deadline(limit_ms, describe):
            while state.position is None:
                self._raise_fault(state)
                await self._checked_fetcher().wait(limit_ms / 1000)
        return state.position

    def high_watermark(self, partition: GivenPartition) -> Offset | None:
        """Returns the high watermark, as of the last fetch."""
        found = self._state(partition, "high_watermark()").high_watermark
        return None if found is None else Offset(found)

    def lag(self, partition: GivenPartition) -> int | None:
        """Returns how far the position is behind the end of the log, as of the last fetch."""
        state = self._state(partition, "lag()")
        end = state.high_watermark
        if self.settings.isolation_level == "read_committed":
            end = state.last_stable_offset
        # As `position` does: what was fetched and not returned by a poll is still to be read.
        position = self._undelivered.first_offset(state.partition)
        if position is None:
            position = state.position
        return None if end is None or position is None else max(0, end - position)

    # What a partition is called, and what keeps it from being read

    def _state(self, given: GivenPartition, call: str) -> PartitionState:
        partition = arguments.partition(given, call)
        state = self._positions.assigned.get(partition)
        if state is None:
            parts = self._parts()
            raise ValueError(
                explain_missing(
                    partition, self._positions.assigned, parts.group, parts.cluster.view
                )
            )
        return state

    def _states(self, given: Iterable[GivenPartitions], call: str) -> list[PartitionState]:
        """Returns the states of partitions, each given alone or in a list."""
        return [
            self._state(partition, call)
            for item in given
            for partition in arguments.partitions(item, call)
        ]

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _raise_fault(self, state: PartitionState) -> None:
        """Raises the error that keeps a partition from being read, if there is one."""
        fault = state.fault
        if fault is None:
            return
        if isinstance(fault, _MAY_PASS) or not isinstance(fault, ClientError):
            # The next poll tries again: permissions change, topics are created, logs grow, schema
            # registries come back.
            state.fault = None
            if state.position is None and state.reset_to is None:
                self._positions.start(state)
            self._parts().fetcher.wake()
        raise fault
