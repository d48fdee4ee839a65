"""Creates and deletes topics, and adds partitions to them, by writing to the metadata store.

The broker that gets the request does this, whether or not it is the controller. Each method returns
when this broker's own image shows the change, and raises `ApiError` with the error code and the
message for the client if the change is refused.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from odradek.cluster.internal_settings import (
    INTERNAL_TOPICS,
    internal_topic,
    required_overrides,
)
from odradek.cluster.new_replicas import BROKER_DEFAULT, NewReplicas
from odradek.cluster.reassignment import assignment as assignment_of
from odradek.cluster.reassignment import is_moving
from odradek.cluster.store_errors import as_api_errors
from odradek.cluster.topic_names import check_collision, check_topic_name
from odradek.config import InvalidSetting, check_topic_overrides
from odradek.config.live import LiveSettings
from odradek.config.schema_validation_settings import check_has_registry
from odradek.config.topic_checks import check_has_key_provider
from odradek.metadata import (
    BadVersion,
    ChangeTooBig,
    Check,
    ClusterImage,
    MetadataCache,
    MetadataStore,
    Node,
    NodeExists,
    NoNode,
    OutcomeUnknown,
    Set,
)
from odradek.metadata.compare_and_set import Outcome, Tries, attempt, write
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.node_values import PartitionState, TopicAssignment
from odradek.metadata.paths import topic_config_path, topic_path
from odradek.metadata.topic_operations import create_partitions, create_topic, delete_topic
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from odradek.world import Randomness
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.controller")


class NewTopic(NamedTuple):
    """A topic to create. With -1 the broker uses its own default."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignment: Mapping[int, Sequence[BrokerId]] = {}
    overrides: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created, or with `validate_only` would have been."""

    topic_id: TopicId
    replicas: tuple[tuple[BrokerId, ...], ...]
    overrides: Mapping[str, str]


Admit = Callable[[int], None]
"""Called with the number of partitions when everything else is checked and nothing is written yet;
raises `ApiError` if they may not be created now."""


class Topics:
    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        settings: LiveSettings,
        randomness: Randomness,
    ) -> None:
        self._store = store
        self._cache = cache
        self._settings = settings
        self._randomness = randomness
        self._new_replicas = NewReplicas(settings, randomness)

    async def create(
        self, new: NewTopic, *, validate_only: bool = False, admit: Admit | None = None
    ) -> CreatedTopic:
        check_topic_name(new.name)
        image = self._cache.image
        if await self._is_taken(new.name, image):
            raise _topic_exists_error(new.name)
        check_collision(image, new.name)
        if new.name in INTERNAL_TOPICS:
            new = self._with_internal_defaults(new, len(image.brokers))
        overrides = self._check_overrides(new.overrides)
        replicas = self._new_replicas.of_topic(
            image, new.assignment, new.partitions, new.replication_factor
        )
        if validate_only:
            return CreatedTopic(TopicId(bytes(16)), replicas, overrides)
        if admit is not None:
            admit(len(replicas))
        topic_id = TopicId(self._randomness.uuid().bytes)
        await Timeslice.of_running_loop().pause()
        states = [_new_partition_state(brokers, image) for brokers in replicas]
        with as_api_errors():
            await self._create(new.name, TopicAssignment(topic_id, replicas), states, overrides)
        logger.info(
            "topic %s: created with partitions: %d, replicas of each: %d, settings: %s",
            new.name,
            len(replicas),
            len(replicas[0]),
            ", ".join(f"{name}={value}" for name, value in overrides.items()) or "none",
        )
        return CreatedTopic(topic_id, replicas, overrides)

    async def _create(
        self,
        name: str,
        assignment: TopicAssignment,
        states: Sequence[PartitionState],
        overrides: Mapping[str, str],
    ) -> None:
        """Creates the topic in one multi. If that is too big for the store, creates the topic with
        fewer partitions and adds the others."""
        count = len(states)
        while True:
            first = assignment._replace(replicas=assignment.replicas[:count])
            try:
                await self._write_new(name, first, states[:count], overrides)
                break
            except ChangeTooBig:
                if count == 1:
                    raise
                count = (count + 1) // 2
        if not await self._add_partitions(
            name, assignment.topic_id, count, assignment.replicas[count:]
        ):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Topic '{name}' was created, but was changed or deleted before all its partitions "
                "were added. Describe it to see its state.",
            )

    async def _add_partitions(
        self,
        name: str,
        topic_id: TopicId,
        first: int,
        added: Sequence[tuple[BrokerId, ...]],
    ) -> bool:
        """Adds partitions with these replicas, numbered from `first`, in multis that are as large
        as the store accepts. The topic is valid after each of them. Returns False if the topic
        does not have `first` partitions, or was deleted (and perhaps created again)."""
        tries = Tries(f"topic '{name}'")
        partition_count, max_chunk, uncertain_count = first, len(added), 0
        while partition_count < first + len(added):
            image = self._cache.image
            topic = image.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                return False
            stored = tuple(
                partition.replicas
                for partition in topic.partitions[partition_count:][:uncertain_count]
            )
            if stored and stored == tuple(added[partition_count - first :][:uncertain_count]):
                # The multi whose reply was lost was carried out.
                partition_count, uncertain_count = partition_count + uncertain_count, 0
                continue
            if len(topic.partitions) != partition_count:
                return False
            chunk = tuple(added[partition_count - first :][:max_chunk])
            assignment = assignment_of(topic, {})
            states = [_new_partition_state(brokers, image) for brokers in chunk]
            try:
                outcome = await write(
                    self._cache,
                    *topic.checks(),
                    Set(
                        topic_path(name),
                        assignment._replace(replicas=assignment.replicas + chunk).encode(),
                        topic.version,
                    ),
                    *create_partitions(name, partition_count, states),
                )
            except ChangeTooBig:
                if max_chunk == 1:
                    raise
                max_chunk = (max_chunk + 1) // 2
                continue
            tries.count(outcome)
            if outcome is Outcome.WRITTEN:
                partition_count, uncertain_count = partition_count + len(chunk), 0
            elif outcome is Outcome.UNKNOWN:
                uncertain_count = len(chunk)
        return True

    async def _write_new(
        self,
        name: str,
        assignment: TopicAssignment,
        states: Sequence[PartitionState],
        overrides: Mapping[str, str],
    ) -> None:
        tries = Tries(f"topic '{name}'")
        config_path = topic_config_path(name)
        while True:
            leftover = await self._store.read(config_path)
            operations = create_topic(name, assignment, states, overrides, leftover)
            await Timeslice.of_running_loop().pause()
            try:
                await attempt(self._cache, *operations)
                return
            except (BadVersion, NodeExists, NoNode) as error:
                if error.path == config_path:
                    # The config node changed since it was read: another client is creating or
                    # deleting a topic of this name.
                    tries.lost_race()
                    continue
                if not isinstance(error, NodeExists):
                    raise
                # An earlier attempt, whose reply was lost, may have created this very topic.
                image = await self._cache.catch_up(topic_path(name))
                if assignment.topic_id not in image.topics_by_id:
                    raise _topic_exists_error(name) from None
                return
            except OutcomeUnknown:
                tries.unknown_outcome()

    async def delete(self, name: str, topic_id: TopicId | None = None) -> None:
        """Deletes the topic with this id; without an id, the topic that has this name now. If that
        topic is deleted and created again meanwhile, the new topic is not deleted."""
        if not self._settings.broker.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        with as_api_errors():
            await self._delete(name, topic_id)
        logger.info("topic %s: deleted", name)

    async def _delete(self, name: str, topic_id: TopicId | None) -> None:
        tries = Tries(f"topic '{name}'")
        code = ErrorCode.UNKNOWN_TOPIC_ID if topic_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        may_be_done = False
        max_operations: int | None = None
        timeslice = Timeslice.of_running_loop()
        while True:
            tree = await self._store.read_tree(topic_path(name))
            await timeslice.pause()
            stored_id = self._topic_id(name, tree)
            if stored_id is None or topic_id not in (None, stored_id):
                await self._cache.catch_up(topic_path(name))
                if may_be_done:
                    return
                raise ApiError(
                    code,
                    _unknown_topic_message(name) if stored_id is None else _other_id_message(name),
                )
            topic_id = stored_id
            config = await self._store.read(topic_config_path(name))
            await timeslice.pause()
            operations = delete_topic(name, tree, config)
            await timeslice.pause()
            try:
                # If the multi is too big, the nodes of the partitions are deleted first, in
                # several multis.
                outcome = await write(self._cache, *operations[:max_operations])
            except ChangeTooBig:
                max_operations = len(operations[:max_operations]) // 2
                continue
            tries.count(outcome)
            if outcome is Outcome.WRITTEN and (
                max_operations is None or max_operations >= len(operations)
            ):
                return
            may_be_done = may_be_done or outcome is not Outcome.LATE

    def _topic_id(self, name: str, tree: Mapping[str, Node]) -> TopicId | None:
        """Returns the id of the topic that has these nodes; None if there is no topic."""
        node = tree.get(topic_path(name))
        if node is None:
            return None
        try:
            return TopicAssignment.decode(topic_path(name), node.value).topic_id
        except MalformedNode:
            known = self._cache.image.topics.get(name)
            return NO_TOPIC_ID if known is None else known.topic_id

    async def add_partitions(
        self,
        name: str,
        partitions: int,
        assignment: Sequence[Sequence[BrokerId]] | None,
        *,
        validate_only: bool = False,
        admit: Admit | None = None,
    ) -> None:
        """Adds partitions until the topic has `partitions` of them. `assignment` has the replicas
        of the new partitions; None lets the broker place them."""
        image = self._cache.image
        if name not in image.topics:
            # Another broker may have created it a moment ago.
            with as_api_errors():
                image = await self._cache.catch_up(topic_path(name))
        topic = image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _unknown_topic_message(name))
        if any(is_moving(partition) for partition in topic.partitions):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A reassignment of topic '{name}' is in progress; try again when it is complete.",
            )
        added = self._new_replicas.added(image, topic, partitions, assignment)
        if validate_only:
            return
        if admit is not None:
            admit(len(added))
        with as_api_errors():
            is_added = await self._add_partitions(
                name, topic.topic_id, len(topic.partitions), added
            )
        if not is_added:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, f"Topic '{name}' changed at the same time; try again."
            )
        logger.info("topic %s: partitions added, now %d", name, partitions)

    async def _is_taken(self, name: str, image: ClusterImage) -> bool:
        """Returns whether the topic is in the image and still exists in the store.

        A topic that is only in the store is found later, by `_write_new`. The store is asked by a
        Check operation: unlike a read, it is never answered by a ZooKeeper server that lags behind,
        so a topic that another broker has just deleted can be created again at once.
        """
        topic = image.topics.get(name)
        if topic is None:
            return False
        try:
            with as_api_errors():
                await attempt(self._cache, Check(topic_path(name), topic.version))
        except BadVersion:
            return True
        except NoNode:
            return False
        return True

    def _with_internal_defaults(self, new: NewTopic, broker_count: int) -> NewTopic:
        """Fills in the partitions, the replication factor and the overrides of an internal topic
        from the coordinators' settings, where the request has none."""
        factor = len(new.assignment[0]) if new.assignment.get(0) else new.replication_factor
        requested_factor = None if factor == BROKER_DEFAULT else factor
        defaults = internal_topic(new.name, broker_count, self._settings.broker, requested_factor)
        requested_overrides = {
            name: value for name, value in new.overrides.items() if value is not None
        }
        overrides = {**defaults.overrides, **requested_overrides}
        new = new._replace(overrides=required_overrides(new.name, overrides))
        if new.assignment:
            return new
        partitions = defaults.partitions if new.partitions == BROKER_DEFAULT else new.partitions
        return new._replace(partitions=partitions, replication_factor=defaults.replication_factor)

    def _check_overrides(self, overrides: Mapping[str, str | None]) -> dict[str, str]:
        broker = self._settings.broker
        try:
            wanted = check_topic_overrides(overrides, broker.topic_defaults)
            check_has_registry(wanted, broker)
            check_has_key_provider(wanted, broker.odradek_key_provider)
        except InvalidSetting as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return {name: value for name, value in overrides.items() if value is not None}


def _new_partition_state(brokers: Sequence[BrokerId], image: ClusterImage) -> PartitionState:
    return PartitionState(
        BrokerId(brokers[0]), LeaderEpoch(0), tuple(brokers), image.controller_epoch
    )


def _topic_exists_error(name: str) -> ApiError:
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _other_id_message(name: str) -> str:
    return f"Topic '{name}' exists with another topic id: it was deleted and created again."


def _unknown_topic_message(name: str) -> str:
    return f"There is no topic '{name}'."
