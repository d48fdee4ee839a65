"""A group of two members, for tests of heartbeats."""

from odradek.groups.consumer.commands import (
    ConsumerHeartbeat,
)
from odradek.protocol.errors import ErrorCode
from tests.unit.groups.consumer.driver import (
    Consumer,
    ConsumerCoordinator,
    settle,
)


def refused(consumer: Consumer, request: ConsumerHeartbeat | None = None) -> ErrorCode:
    return consumer.coordinator.refusal(request or consumer.request())


def two_members() -> tuple[ConsumerCoordinator, Consumer, Consumer]:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    two.join()
    settle(one, two)
    return coordinator, one, two
