"""What the client of one request may do, and the log of what it was refused."""

import logging
from typing import Final

from odradek.broker.services import RequestContext, Services
from odradek.metadata import ClusterImage
from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.protocol.apis import AnyApi
from odradek.protocol.types import NO_TOPIC_ID, TopicId

logger: Final = logging.getLogger("odradek.authorizer")

_DEBUG: Final = logging.DEBUG
_TOPIC: Final = ResourceType.TOPIC


class Access:
    __slots__ = ("_api", "_authorizer", "_host", "_principal", "_services")

    def __init__(self, services: Services, context: RequestContext, api: AnyApi) -> None:
        assert services.authorizer is not None  # else there are no guards
        self._authorizer = services.authorizer
        self._services = services
        self._principal = context.connection.principal
        self._host = context.connection.address
        self._api = api

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether it may do what it asks for. A refusal goes to the log."""
        allowed = self._authorizer.allows(self._principal, self._host, operation, kind, name)
        if not allowed:
            self._log(logging.INFO, "Denied", operation, kind, name)
        elif logger.isEnabledFor(_DEBUG):
            self._log(_DEBUG, "Allowed", operation, kind, name)
        return allowed

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """The same where nobody asked for this resource: it is only left out."""
        return self._authorizer.allows(self._principal, self._host, operation, kind, name)

    def may_on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_on_cluster(self, operation: Operation) -> bool:
        return self.sees(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, _TOPIC, name)

    def may_on_any(self, operation: Operation, kind: ResourceType) -> bool:
        return self._authorizer.allows_any(self._principal, self._host, operation, kind)

    def operations(self, kind: ResourceType, name: str, possible: int) -> int:
        """Those of the possible operations that are allowed, as a set of bits."""
        return sum(
            1 << operation
            for operation in Operation
            if possible >> operation & 1 and self.sees(operation, kind, name)
        )

    @property
    def image(self) -> ClusterImage:
        return self._services.images.image

    @property
    def creates_topics(self) -> bool:
        return self._services.settings.broker.auto_create_topics_enable

    def topic_name(self, name: str | None, topic_id: TopicId) -> str | None:
        """Returns the name of the topic that a request means; None for an unknown id.

        Where a request gives both, the id counts: handlers answer by the id too, so permission is
        asked for the topic that is answered and not for the one that is named.
        """
        if topic_id == NO_TOPIC_ID:
            return name
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _log(
        self, level: int, ruling: str, operation: Operation, kind: ResourceType, name: str
    ) -> None:
        logger.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s"
            " for request = %s: %s",
            self._principal,
            ruling,
            operation.name,
            self._host,
            kind.title,
            name,
            self._api.module_name.upper(),
            self._authorizer.reason(self._principal, self._host, operation, kind, name),
        )
