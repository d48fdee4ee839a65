"""Creates, extends and deletes topics by writing to the metadata store.

Each method returns when this broker's own image shows the change. A refusal is an `ApiError` with
the error code and the message for the client.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.cluster.internal_settings import (
    INTERNAL_TOPICS,
    internal_topic,
    required_overrides,
)
from odradek.cluster.placement import NotEnoughBrokers, place
from odradek.cluster.reassignment import assignment as assignment_of
from odradek.cluster.reassignment import is_moving
from odradek.cluster.store_errors import as_api_errors
from odradek.config import InvalidSetting, check_topic_overrides
from odradek.config.live import LiveSettings
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
    TopicImage,
)
from odradek.metadata.compare_and_set import Outcome, Tries, attempt, write
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.node_values import PartitionState, TopicAssignment
from odradek.metadata.paths import topic_config_path, topic_path
from odradek.metadata.topic_operations import create_partitions, create_topic, delete_topic
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from odradek.wording import counted
from odradek.world import Randomness

logger = logging.getLogger("odradek.controller")

_MAX_NAME_LENGTH: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_FROM_SETTINGS: Final = -1
_MAX_PARTITIONS: Final = 100_000
# As in Kafka 4: a slip of one digit must not keep the broker busy for minutes.
_MAX_NEW_PARTITIONS: Final = 10_000


class NewTopic(NamedTuple):
    """A topic to create. -1 stands for the broker's default."""

    name: str
    partitions: int = _FROM_SETTINGS
    replication_factor: int = _FROM_SETTINGS
    assignment: Mapping[int, Sequence[int]] = {}
    overrides: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created, or with `validate_only` would have been."""

    topic_id: TopicId
    replicas: tuple[tuple[int, ...], ...]
    overrides: Mapping[str, str]


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

    async def create(self, new: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        check_name(new.name)
        image = self._cache.image
        if await self._is_taken(new.name, image):
            raise _exists(new.name)
        _check_collision(image, new.name)
        if new.name in INTERNAL_TOPICS:
            new = self._completed(new, len(image.brokers))
        overrides = self._checked_overrides(new.overrides)
        replicas = self._replicas(image, new)
        if validate_only:
            return CreatedTopic(TopicId(bytes(16)), replicas, overrides)
        topic_id = TopicId(self._randomness.uuid().bytes)
        states = [_led_by_first(brokers, image) for brokers in replicas]
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
        """Creates the topic at once or, if the store does not take that, with fewer partitions to
        which the others are added."""
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
        if not await self._add(name, assignment.topic_id, count, assignment.replicas[count:]):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Topic '{name}' was changed while it was being made; look what it has become.",
            )

    async def _add(
        self,
        name: str,
        topic_id: TopicId,
        first: int,
        added: Sequence[tuple[int, ...]],
    ) -> bool:
        """Adds partitions with these replicas, numbered from `first`, in as few multis as the store
        takes; after each of them the topic is valid. Returns False if the topic does not have
        `first` partitions, or has been replaced by another topic."""
        tries = Tries(f"topic '{name}'")
        made, most, may_be_made = first, len(added), 0
        while made < first + len(added):
            image = self._cache.image
            topic = image.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                return False
            after = tuple(partition.replicas for partition in topic.partitions[made:][:may_be_made])
            if after and after == tuple(added[made - first :][:may_be_made]):
                # The multi whose reply was lost was carried out.
                made, may_be_made = made + may_be_made, 0
                continue
            if len(topic.partitions) != made:
                return False
            chunk = tuple(added[made - first :][:most])
            before = assignment_of(topic, {})
            states = [_led_by_first(brokers, image) for brokers in chunk]
            try:
                outcome = await write(
                    self._cache,
                    *topic.checks(),
                    Set(
                        topic_path(name),
                        before._replace(replicas=before.replicas + chunk).encode(),
                        topic.version,
                    ),
                    *create_partitions(name, made, states),
                )
            except ChangeTooBig:
                if most == 1:
                    raise
                most = (most + 1) // 2
                continue
            tries.count(outcome)
            if outcome is Outcome.WRITTEN:
                made, may_be_made = made + len(chunk), 0
            elif outcome is Outcome.UNKNOWN:
                may_be_made = len(chunk)
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
            try:
                await attempt(self._cache, *operations)
                return
            except (BadVersion, NodeExists, NoNode) as refusal:
                if refusal.path == config_path:
                    # Another client created a topic of this name and deleted it, or is doing so.
                    tries.lost_race()
                    continue
                if not isinstance(refusal, NodeExists):
                    raise
                # It is this one if only the reply to an earlier attempt was lost.
                image = await self._cache.caught_up(topic_path(name))
                if assignment.topic_id not in image.topics_by_id:
                    raise _exists(name) from None
                return
            except OutcomeUnknown:
                tries.unknown_outcome()

    async def delete(self, name: str, topic_id: TopicId | None = None) -> None:
        """Deletes the topic with this id; without one, the topic that has this name now. A topic
        that is created under the same name meanwhile is another one, and is not deleted."""
        if not self._settings.broker.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        with as_api_errors():
            await self._delete(name, topic_id)
        logger.info("topic %s: deleted", name)

    async def _delete(self, name: str, topic_id: TopicId | None) -> None:
        tries = Tries(f"topic '{name}'")
        code = ErrorCode.UNKNOWN_TOPIC_ID if topic_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        may_be_done = False
        most: int | None = None
        while True:
            tree = await self._store.read_tree(topic_path(name))
            found = self._topic_id(name, tree)
            if found is None or topic_id not in (None, found):
                await self._cache.caught_up(topic_path(name))
                if may_be_done:
                    return
                raise ApiError(code, _unknown(name) if found is None else _another(name))
            topic_id = found
            config = await self._store.read(topic_config_path(name))
            operations = delete_topic(name, tree, config)
            try:
                # If that is too much at once, the nodes of the partitions go first.
                outcome = await write(self._cache, *operations[:most])
            except ChangeTooBig:
                most = len(operations[:most]) // 2
                continue
            tries.count(outcome)
            if outcome is Outcome.WRITTEN and (most is None or most >= len(operations)):
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

    async def grow(
        self,
        name: str,
        partitions: int,
        assignment: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Adds partitions, up to the number `partitions`. `assignment` is for the new ones."""
        image = self._cache.image
        if name not in image.topics:
            # Another broker may have created it a moment ago.
            with as_api_errors():
                image = await self._cache.caught_up(topic_path(name))
        topic = image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _unknown(name))
        if any(is_moving(partition) for partition in topic.partitions):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"Partitions of '{name}' are being moved; try again when they have arrived.",
            )
        added = self._added_replicas(image, topic, partitions, assignment)
        if validate_only:
            return
        with as_api_errors():
            is_added = await self._add(name, topic.topic_id, len(topic.partitions), added)
        if not is_added:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, f"Topic '{name}' changed at the same time; try again."
            )
        logger.info("topic %s: grown to partitions: %d", name, partitions)

    async def _is_taken(self, name: str, image: ClusterImage) -> bool:
        """Returns whether there is a topic of this name. If the image has one, the store is asked
        by a check: unlike a read, it is never answered by a ZooKeeper server that lags behind, so a
        topic that another broker has just deleted can be created again at once."""
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

    def _completed(self, new: NewTopic, brokers: int) -> NewTopic:
        """Completes an internal topic by the coordinators' settings where it asks for none."""
        factor = len(new.assignment[0]) if new.assignment.get(0) else new.replication_factor
        given = None if factor == _FROM_SETTINGS else factor
        usual = internal_topic(new.name, brokers, self._settings.broker, given)
        asked = {name: value for name, value in new.overrides.items() if value is not None}
        new = new._replace(overrides=required_overrides(new.name, {**usual.overrides, **asked}))
        if new.assignment:
            return new
        partitions = usual.partitions if new.partitions == _FROM_SETTINGS else new.partitions
        return new._replace(partitions=partitions, replication_factor=usual.replication_factor)

    def _checked_overrides(self, overrides: Mapping[str, str | None]) -> dict[str, str]:
        try:
            check_topic_overrides(overrides, self._settings.broker.topic_defaults)
        except InvalidSetting as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return {name: value for name, value in overrides.items() if value is not None}

    def _replicas(self, image: ClusterImage, new: NewTopic) -> tuple[tuple[int, ...], ...]:
        if new.assignment:
            if new.partitions != _FROM_SETTINGS or new.replication_factor != _FROM_SETTINGS:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "Give either a replica assignment or numbers of partitions and replicas.",
                )
            if sorted(new.assignment) != list(range(len(new.assignment))):
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    "Partitions are numbered from 0 without gaps.",
                )
            return _checked(image, [new.assignment[index] for index in sorted(new.assignment)])
        settings = self._settings.broker
        partitions, factor = new.partitions, new.replication_factor
        if partitions == _FROM_SETTINGS:
            partitions = settings.num_partitions
        if factor == _FROM_SETTINGS:
            factor = settings.default_replication_factor
        if not 0 < partitions <= _MAX_PARTITIONS:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"The number of partitions is 1 to {_MAX_PARTITIONS}, not {partitions}.",
            )
        if factor < 1:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is at least 1."
            )
        _check_new_partitions(partitions)
        return self._placed(image, partitions, factor, first_partition=0)

    def _added_replicas(
        self,
        image: ClusterImage,
        topic: TopicImage,
        partitions: int,
        assignment: Sequence[Sequence[int]] | None,
    ) -> tuple[tuple[int, ...], ...]:
        now = len(topic.partitions)
        if partitions <= now:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{topic.name}' has {counted(now, 'partition')}; "
                f"{partitions} would not be an increase.",
            )
        if partitions > _MAX_PARTITIONS:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, f"A topic has at most {_MAX_PARTITIONS} partitions."
            )
        if assignment is None:
            _check_new_partitions(partitions - now)
            factor = len(topic.partitions[0].replicas)
            return self._placed(image, partitions - now, factor, first_partition=now)
        if len(assignment) != partitions - now:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{counted(partitions - now, 'partition is', 'partitions are')} added,"
                f" {len(assignment)} assigned.",
            )
        return _checked(image, assignment)

    def _placed(
        self, image: ClusterImage, partitions: int, factor: int, *, first_partition: int
    ) -> tuple[tuple[int, ...], ...]:
        racks = {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
        try:
            placed = place(
                racks, partitions, factor, self._randomness, first_partition=first_partition
            )
        except NotEnoughBrokers as error:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"Cannot place the replicas: {error}."
            ) from error
        return tuple(tuple(brokers) for brokers in placed)


def check_name(name: str) -> None:
    """Refuses a name that a topic (and its directories) cannot have."""
    if not name:
        reason = "a topic needs a name"
    elif name in (".", ".."):
        reason = "it cannot be '.' or '..'"
    elif len(name) > _MAX_NAME_LENGTH:
        reason = f"it is longer than {_MAX_NAME_LENGTH} characters"
    elif not _NAME.fullmatch(name):
        reason = "it may hold only letters and digits of ASCII, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name '{name}' is invalid: {reason}.")


def _check_new_partitions(count: int) -> None:
    if count > _MAX_NEW_PARTITIONS:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"At most {_MAX_NEW_PARTITIONS} partitions can be made at a time, not {count}.",
        )


def _check_collision(image: ClusterImage, name: str) -> None:
    """Refuses a topic whose name differs from another one's only by '.' and '_': metrics replace
    '.' by '_', so the two would share their metrics."""
    if "." in name or "_" in name:
        folded = name.replace(".", "_")
        for other in image.topics:
            if other != name and other.replace(".", "_") == folded:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic '{other}': "
                    "'.' and '_' are the same in metric names.",
                )


def _checked(
    image: ClusterImage, assignment: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    factors = {len(brokers) for brokers in assignment}
    if len(factors) != 1 or factors == {0}:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Every partition needs the same number of replicas, at least one.",
        )
    for brokers in assignment:
        if len(set(brokers)) != len(brokers):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{list(brokers)} names a broker twice."
            )
        unknown = [broker for broker in brokers if broker not in image.brokers]
        if unknown:
            message = f"There is no broker {unknown[0]}."
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return tuple(tuple(brokers) for brokers in assignment)


def _led_by_first(brokers: Sequence[int], image: ClusterImage) -> PartitionState:
    return PartitionState(
        BrokerId(brokers[0]), LeaderEpoch(0), tuple(brokers), image.controller_epoch
    )


def _exists(name: str) -> ApiError:
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _another(name: str) -> str:
    return f"The topic '{name}' that there is now has another id."


def _unknown(name: str) -> str:
    return f"There is no topic '{name}'."
