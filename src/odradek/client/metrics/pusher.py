"""Pushes the metrics of a client to a broker that asks for them (KIP-714).

    ask which metrics, how often --> wait for the interval --> push --> wait --> push ...
         ^                                                       |
         +---- the subscription has changed, or nothing to push -+

The first wait is half to one and a half times the interval, so that clients that start together do
not push together. A client that is closed pushes once more. Whatever goes wrong is logged at level
INFO at most and tried again after the interval: metrics must not trouble the program.
"""

import asyncio
import base64
import logging
from collections.abc import Iterable
from typing import Final

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.metrics.catalogue import Formula
from odradek.client.metrics.view import Computed, MetricsView
from odradek.protocol.compression import Codec, compress
from odradek.protocol.errors import ErrorCode, KafkaError, raise_for
from odradek.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.protocol.types import NO_TOPIC_ID
from odradek.telemetry.otlp.decoding import Point
from odradek.telemetry.otlp.encoding import encode
from odradek.world import Clock, SystemClock

_log = logging.getLogger("odradek.client")

_DEFAULT_INTERVAL_S: Final = 300.0
_LAST_PUSH_TIMEOUT_S: Final = 1.0
_ALL: Final = ("*", "")
# The client asks again for its subscription, without a pause.
_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
# The broker does not take metrics of this client.
_FINAL: Final = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


class MetricsPusher:
    def __init__(self, cluster: Cluster, view: MetricsView, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._view = view
        self._clock = clock or SystemClock()
        self._instance_id = NO_TOPIC_ID
        self._instance_known = asyncio.Event()
        self._subscription: GetTelemetrySubscriptionsResponse | None = None
        # Sums are pushed as what was added since the last push that was accepted.
        self._pushed: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._pushed_ms = self._clock.now_ms()

    async def instance_id_text(self) -> str:
        """Returns the id that a broker has given, when it has."""
        await self._instance_known.wait()
        return base64.urlsafe_b64encode(self._instance_id).rstrip(b"=").decode()

    async def run(self) -> None:
        """Pushes until it is cancelled, or until a broker refuses for good."""
        while True:
            try:
                subscription = self._subscription = await self._ask()
                wait_s = subscription.push_interval_ms / 1000
                if subscription.requested_metrics:
                    await asyncio.sleep(wait_s * (0.5 + self._cluster.randomness.fraction()))
                    await self._push_on(subscription)
                    continue
            except KafkaError as error:
                if error.code in _FINAL:
                    _log.info("metrics are not pushed: %s", error)
                    return
                _log.debug("metrics were not pushed: %s", error)
                wait_s = self._interval_s
            except ClientError as error:
                _log.debug("metrics were not pushed: %s", error)
                wait_s = self._interval_s
            await asyncio.sleep(wait_s)

    async def _push_on(self, subscription: GetTelemetrySubscriptionsResponse) -> None:
        """Pushes once in an interval, until the client is to ask again."""
        while True:
            if await self._push(subscription) in _ASK_AGAIN:
                return
            await asyncio.sleep(subscription.push_interval_ms / 1000)

    @property
    def _interval_s(self) -> float:
        subscription = self._subscription
        return _DEFAULT_INTERVAL_S if subscription is None else subscription.push_interval_ms / 1000

    async def push_last(self) -> None:
        """Pushes what is left when the client is closed. It does not take longer than a second."""
        subscription = self._subscription
        if subscription is None or not subscription.requested_metrics:
            return
        try:
            async with asyncio.timeout(_LAST_PUSH_TIMEOUT_S):
                await self._push(subscription, is_last=True)
        except (TimeoutError, ClientError, KafkaError) as error:
            _log.debug("the last metrics were not pushed: %s", error)

    async def _ask(self) -> GetTelemetrySubscriptionsResponse:
        connection = await self._cluster.any_connection()
        response = await connection.request(
            GetTelemetrySubscriptionsRequest(client_instance_id=self._instance_id),
            GetTelemetrySubscriptionsResponse,
        )
        raise_for(response.error_code)
        self._instance_id = response.client_instance_id
        self._instance_known.set()
        return response

    async def _push(
        self, subscription: GetTelemetrySubscriptionsResponse, *, is_last: bool = False
    ) -> ErrorCode:
        """Pushes once. Returns the error if the client is to ask again; raises others."""
        totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        points = [
            self._point(found, totals, is_delta=subscription.delta_temporality)
            for found in _requested(self._view.compute(), subscription.requested_metrics)
        ]
        now_ms = self._clock.now_ms()
        data = encode(points, {}, self._pushed_ms, now_ms)
        accepted = subscription.accepted_compression_types
        codec = Codec(accepted[0]) if accepted and accepted[0] in tuple(Codec) else Codec.NONE
        compressed = compress(codec, data)
        if len(compressed) > subscription.telemetry_max_bytes:
            _log.info("metrics of %d bytes are too many for the broker", len(compressed))
            return ErrorCode.NONE
        connection = await self._cluster.any_connection()
        response = await connection.request(
            PushTelemetryRequest(
                client_instance_id=self._instance_id,
                subscription_id=subscription.subscription_id,
                terminating=is_last,
                compression_type=codec,
                metrics=compressed,
            ),
            PushTelemetryResponse,
        )
        error = ErrorCode(response.error_code)
        if error in _ASK_AGAIN:
            return error
        raise_for(error)
        self._pushed.update(totals)
        self._pushed_ms = now_ms
        return ErrorCode.NONE

    def _point(
        self,
        found: Computed,
        totals: dict[tuple[str, tuple[tuple[str, str], ...]], float],
        *,
        is_delta: bool,
    ) -> Point:
        name = found.metric.pushed_name
        attributes = tuple((tag.replace("-", "_"), value) for tag, value in found.tags.items())
        description = found.metric.description
        if found.metric.formula is not Formula.TOTAL:
            return Point(name, description, attributes, found.value)
        totals[name, attributes] = found.value
        before = self._pushed.get((name, attributes), 0.0) if is_delta else 0.0
        return Point(
            name,
            description,
            attributes,
            found.value - before,
            is_sum=True,
            is_delta=is_delta,
            is_monotonic=True,
        )


def _requested(computed: Iterable[Computed], prefixes: list[str]) -> Iterable[Computed]:
    """Returns the metrics whose name begins with one of the prefixes."""
    if len(prefixes) == 1 and prefixes[0] in _ALL:
        return computed
    wanted = tuple(prefixes)
    return [found for found in computed if found.metric.pushed_name.startswith(wanted)]
