"""Changes settings of topics, groups, client metrics, users, brokers or the whole cluster while
brokers run.

A change is a function from the overrides that a resource has to those that it shall have. It is
applied to what the store holds at that moment, by compare-and-set: two changes of different
settings of one resource at the same time both take effect, whichever brokers make them. So the
function may be called more than once, and may raise `ApiError`.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from odradek.cluster.internal_settings import required_overrides
from odradek.cluster.store_errors import as_api_errors
from odradek.config import (
    BrokerSettings,
    InvalidSetting,
    check_broker_overrides,
    check_topic_overrides,
)
from odradek.config.consumer_group_settings import check_group_overrides
from odradek.config.live import LiveSettings
from odradek.config.schema_validation_settings import check_has_registry
from odradek.config.topic_checks import check_has_key_provider
from odradek.metadata import MetadataCache, MetadataStore, NoNode
from odradek.metadata.compare_and_set import Tries, change_node
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.paths import (
    CLIENT_METRICS_CONFIGS,
    CLUSTER_DEFAULT,
    ID_NODE,
    USER_CONFIGS,
    broker_config_path,
    client_metrics_config_path,
    group_config_path,
    topic_config_path,
    topic_path,
    user_config_path,
    user_of_config_path,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode

Overrides = Mapping[str, str]
OverridesChange = Callable[[Overrides], Overrides]


_LISTENER: Final = "listener.name."


class ListenerSecurity(Protocol):
    """The secured listeners of this broker (`broker.authentication.secured_listeners`)."""

    async def check(self, settings: BrokerSettings) -> None:
        """Raises `InvalidSetting` if keys or mechanisms of these settings cannot be used."""
        ...

    def settings_changed(self) -> None:
        """Reads keys again that may have changed."""
        ...


class Configs:
    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        settings: LiveSettings,
        security: ListenerSecurity | None = None,
    ) -> None:
        """`security` is None if every listener is PLAINTEXT."""
        self._store = store
        self._cache = cache
        self._settings = settings
        self._security = security

    def topic_overrides(self, topic: str) -> Overrides:
        image = self._cache.image.topics.get(topic)
        if image is None:
            raise _no_topic(topic)
        return image.overrides

    def broker_overrides(self, broker: str) -> Overrides:
        """Returns the overrides of a broker by its id, or of the cluster if the name is empty."""
        return self._cache.image.broker_configs.get(broker or CLUSTER_DEFAULT, {})

    def group_overrides(self, group_id: str) -> Overrides:
        """Returns the overrides of a group, which need not exist."""
        if not group_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The name of a group is missing.")
        return self._cache.image.group_config(group_id)

    def client_metrics_overrides(self, subscription: str) -> Overrides:
        """Returns the settings of a subscription to client metrics; none if there is none."""
        if not subscription:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The name of a subscription is missing.")
        return self._cache.image.client_metrics_configs.get(subscription, {})

    async def change_topic(
        self, topic: str, change: OverridesChange, *, validate_only: bool
    ) -> None:
        def checked(before: Overrides) -> Overrides:
            after = required_overrides(topic, change(before))
            broker = self._settings.broker
            settings = check_topic_overrides(after, broker.topic_defaults)
            check_has_registry(settings, broker)
            check_has_key_provider(settings, broker.odradek_key_provider)
            return after

        present = self.topic_overrides(topic)
        if validate_only:
            _validated(checked, present)
            return
        tries = Tries(f"topic '{topic}'")
        while True:
            with as_api_errors():
                requires = await self._existence(topic)
            try:
                await self._change(topic_config_path(topic), checked, present, requires=requires)
                return
            except NoNode:
                with as_api_errors():
                    await self._cache.catch_up(topic_path(topic))
                    tries.lost_race()
                present = self.topic_overrides(topic)

    async def _existence(self, topic: str) -> str:
        """Returns the path of a node that must exist when the topic's settings are changed.
        Otherwise the settings of a deleted topic would apply to the next one of the same name. It
        is the node of the topic's id, because the settings of the next topic may have the same
        version. A topic that Kafka or another version created has no such node: then it is the
        topic's own."""
        path = topic_path(topic)
        ids = [name for name in await self._store.children(path) if name.startswith(ID_NODE)]
        return f"{path}/{ids[0]}" if ids else path

    async def change_broker(
        self, broker: str, change: OverridesChange, *, validate_only: bool
    ) -> None:
        def checked(before: Overrides) -> Overrides:
            after = change(before)
            check_broker_overrides(after, self._settings.broker, per_broker=bool(broker))
            return after

        present = self.broker_overrides(broker)
        if self._security is not None and broker:
            await self._check_security(self._security, _validated(checked, present))
        if validate_only:
            _validated(checked, present)
            return
        await self._change(broker_config_path(broker or CLUSTER_DEFAULT), checked, present)
        if self._security is not None:
            # Also if nothing has changed: who sets the same path again has replaced the file.
            self._security.settings_changed()

    async def _check_security(self, security: ListenerSecurity, after: Overrides) -> None:
        """Raises `ApiError` if this broker could not use the keys that its overrides name."""
        if not any(name.startswith(_LISTENER) for name in after):
            return
        default = self._settings.broker.layers.dynamic_default
        try:
            await security.check(self._settings.broker.with_dynamic(default, after))
        except InvalidSetting as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    async def change_group(
        self, group_id: str, change: OverridesChange, *, validate_only: bool
    ) -> None:
        def checked(before: Overrides) -> Overrides:
            after = change(before)
            check_group_overrides(after, self._settings.broker)
            return after

        present = self.group_overrides(group_id)
        if validate_only:
            _validated(checked, present)
        else:
            await self._change(group_config_path(group_id), checked, present)

    async def change_client_metrics(
        self, subscription: str, change: OverridesChange, *, validate_only: bool
    ) -> None:
        from odradek.config.client_metrics_settings import (  # noqa: PLC0415 - seldom needed
            check_client_metrics_overrides,
        )

        def checked(before: Overrides) -> Overrides:
            after = change(before)
            check_client_metrics_overrides(after)
            return after

        present = self.client_metrics_overrides(subscription)
        if validate_only:
            _validated(checked, present)
        else:
            path = client_metrics_config_path(subscription)
            await self._change(path, checked, present, parents=(CLIENT_METRICS_CONFIGS,))

    async def users(self) -> dict[str, Overrides]:
        """Returns the settings of every user. They are read from the store each time: brokers keep
        no credentials in memory."""
        with as_api_errors():
            nodes = await self._store.read_tree(USER_CONFIGS)
        return {
            user_of_config_path(path): ConfigOverrides.decode(path, node.value).settings
            for path, node in nodes.items()
            # The nodes below a user's are the quotas of the user's client ids. A node that was
            # only made as their parent is empty.
            if path.startswith(USER_CONFIGS + "/") and path.count("/") == 3 and node.value
        }

    async def user(self, user: str) -> Overrides:
        """Returns the settings of one user, read from the store: its credentials. Raises
        `MetadataError`."""
        path = user_config_path(user)
        node = await self._store.read(path)
        return {} if node is None else ConfigOverrides.decode(path, node.value).settings

    async def change_user(self, user: str, change: OverridesChange) -> None:
        await self._change(user_config_path(user), change, {})

    async def _change(
        self,
        path: str,
        change: OverridesChange,
        known: Overrides,
        *,
        requires: str = "",
        parents: tuple[str, ...] = (),
    ) -> None:
        """`known` takes the place of a node that cannot be decoded; the change repairs the node."""

        def changed(value: bytes | None) -> bytes | None:
            try:
                before = {} if not value else ConfigOverrides.decode(path, value).settings
            except MalformedNode:
                return ConfigOverrides(_validated(change, known)).encode()
            after = _validated(change, before)
            return None if after == before else ConfigOverrides(after).encode()

        with as_api_errors():
            await change_node(
                self._cache,
                path,
                changed,
                parents=parents,
                requires=(requires,) if requires else (),
            )


def _validated(change: OverridesChange, before: Overrides) -> Overrides:
    try:
        return change(before)
    except InvalidSetting as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _no_topic(topic: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{topic}'.")
