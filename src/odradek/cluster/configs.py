"""Settings that change while brokers run: a topic's, a group's, a user's, a broker's, all."""

from collections.abc import Callable, Mapping

from odradek.cluster.availability import answering
from odradek.config import InvalidSetting, check_broker_overrides, check_topic_overrides
from odradek.config.consumer_group_settings import check_group_overrides
from odradek.config.live import LiveSettings
from odradek.metadata import BadVersion, ImageKeeper, MetadataStore, NodeExists, NoNode
from odradek.metadata.layout import (
    CLUSTER_DEFAULT,
    USER_CONFIGS,
    ConfigOverrides,
    broker_config_path,
    group_config_path,
    set_overrides,
    topic_config_path,
    user_config_path,
    user_of_config_path,
)
from odradek.protocol.errors import ErrorCode
from odradek.replication.refusal import Refused


class Configs:
    """Each change replaces all overrides of a resource, so that concurrent changes are seen."""

    def __init__(self, store: MetadataStore, images: ImageKeeper, settings: LiveSettings) -> None:
        self._store = store
        self._images = images
        self._settings = settings

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        image = self._images.image.topics.get(topic)
        if image is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{topic}'.")
        return image.overrides

    def broker_overrides(self, broker: str) -> Mapping[str, str]:
        """Of one broker by its id, or of the cluster where the name is empty."""
        return self._images.image.broker_configs.get(broker or CLUSTER_DEFAULT, {})

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The group need not exist."""
        if not group_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "The name of a group is missing.")
        return self._images.image.group_config(group_id)

    async def set_topic(
        self, topic: str, overrides: Mapping[str, str], *, validate_only: bool
    ) -> None:
        try:
            check_topic_overrides(overrides, self._settings.broker.topic_defaults)
        except InvalidSetting as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
        if not validate_only:
            await self._write(topic_config_path(topic), overrides)

    async def set_broker(
        self, broker: str, overrides: Mapping[str, str], *, validate_only: bool
    ) -> None:
        try:
            check_broker_overrides(overrides, self._settings.broker, per_broker=bool(broker))
        except InvalidSetting as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
        if not validate_only:
            await self._write(broker_config_path(broker or CLUSTER_DEFAULT), overrides)

    async def set_group(
        self, group_id: str, overrides: Mapping[str, str], *, validate_only: bool
    ) -> None:
        try:
            check_group_overrides(overrides, self._settings.broker)
        except InvalidSetting as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
        if not validate_only:
            await self._write(group_config_path(group_id), overrides)

    async def users(self) -> dict[str, Mapping[str, str]]:
        """What is kept of every user. Read anew each time: brokers remember no credentials."""
        with answering():
            nodes = await self._store.read_tree(USER_CONFIGS)
        return {
            user_of_config_path(path): ConfigOverrides.decode(path, node.value).settings
            for path, node in nodes.items()
            if path.startswith(USER_CONFIGS + "/")
        }

    async def change_user(
        self, user: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """`change` makes the new settings from those that there are; it may raise."""
        path = user_config_path(user)
        with answering():
            while True:
                node = await self._store.read(path)
                before = {} if node is None else ConfigOverrides.decode(path, node.value).settings
                try:
                    await self._images.write(*set_overrides(path, node, change(before)))
                except (BadVersion, NodeExists, NoNode):
                    continue
                return

    async def _write(self, path: str, overrides: Mapping[str, str]) -> None:
        with answering():
            while True:
                operations = set_overrides(path, await self._store.read(path), overrides)
                try:
                    await self._images.write(*operations)
                except (BadVersion, NodeExists, NoNode):
                    continue  # Somebody else changed it in between; the later one wins.
                return
