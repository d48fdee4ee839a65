"""The clients that have asked for their subscription, and whether a request of theirs is accepted.

A client is known by its instance id, which the broker gives it. The rules and the errors are those
of Kafka's ClientMetricsManager:

- A client may ask again after its push interval, or at once if its last push was refused because
  the subscription has changed or the compression is not supported.
- It may push once after it has asked, and then once in an interval. A last push, of a client that
  ends, may come at any time, and no further one after it.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from odradek.broker.client_telemetry.subscriptions import Requested, Subscriptions
from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest
from odradek.protocol.types import TopicId

ACCEPTED_COMPRESSION: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In the order in which clients should prefer them."""

# The clients that asked longest ago are forgotten first. They are told so when they push.
_MAX_INSTANCES: Final = 10_000
_NEVER_S: Final = float("-inf")
_MAY_ASK_AGAIN: Final = (
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)


class ClientInstance:
    __slots__ = ("asked_s", "has_ended", "last_error", "pushed_s", "requested")

    def __init__(self, requested: Requested) -> None:
        self.requested = requested
        self.asked_s = self.pushed_s = _NEVER_S
        self.last_error = ErrorCode.NONE
        self.has_ended = False

    @property
    def interval_s(self) -> float:
        return self.requested.interval_ms / 1000

    def may_ask(self, now_s: float) -> bool:
        is_early = now_s - max(self.asked_s, self.pushed_s) < self.interval_s
        if is_early and self.last_error not in _MAY_ASK_AGAIN:
            return False
        self.asked_s = now_s
        return True

    def may_push(self, now_s: float) -> bool:
        is_allowed = self.asked_s > self.pushed_s or now_s - self.pushed_s >= self.interval_s
        if is_allowed:
            self.pushed_s = now_s
        return is_allowed


class ClientInstances:
    def __init__(self, subscriptions: Subscriptions, now_s: Callable[[], float]) -> None:
        self._subscriptions = subscriptions
        self._now_s = now_s
        self._instances: OrderedDict[TopicId, ClientInstance] = OrderedDict()
        # Since the start: requests that came too early, and pushes of another subscription.
        self.throttled = self.unknown_subscriptions = 0

    def __len__(self) -> int:
        return len(self._instances)

    def ask(self, instance_id: TopicId, client: Mapping[str, str]) -> tuple[Requested, ErrorCode]:
        """Returns what a client is to push, or the error if it asks too often."""
        instance = self._instance(instance_id, client)
        if not instance.may_ask(self._now_s()):
            self.throttled += 1
            return instance.requested, ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance.requested, ErrorCode.NONE

    def push(
        self, request: PushTelemetryRequest, client: Mapping[str, str], max_bytes: int
    ) -> tuple[ClientInstance, ErrorCode]:
        """Returns the client, and NONE if its push is accepted."""
        instance = self._instance(request.client_instance_id, client)
        error = self._refusal(instance, request, max_bytes)
        instance.last_error = error
        if error is ErrorCode.NONE:
            instance.has_ended = request.terminating
        return instance, error

    def _refusal(
        self, instance: ClientInstance, request: PushTelemetryRequest, max_bytes: int
    ) -> ErrorCode:
        if instance.has_ended:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(self._now_s()) and not request.terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != instance.requested.id:
            self.unknown_subscriptions += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in (Codec.NONE, *ACCEPTED_COMPRESSION):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _instance(self, instance_id: TopicId, client: Mapping[str, str]) -> ClientInstance:
        """Returns the client as it was left. If subscriptions have changed since, it begins anew
        with what it is to push now."""
        instance = self._instances.get(instance_id)
        if instance is None or instance.requested.source is not self._subscriptions.source:
            has_ended = instance is not None and instance.has_ended
            instance = ClientInstance(self._subscriptions.requested(client))
            instance.has_ended = has_ended
            self._instances[instance_id] = instance
            if len(self._instances) > _MAX_INSTANCES:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance_id)
        return instance
