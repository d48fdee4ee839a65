"""The addresses of brokers for a client: those of the listener by which the client connected."""

from collections.abc import Container, Iterator

from odradek.config import Listener
from odradek.metadata import BrokerImage, ClusterImage


def brokers_on_listener(
    image: ClusterImage, listener_name: str, broker_ids: Container[int] | None = None
) -> Iterator[tuple[BrokerImage, Listener]]:
    """Yields the live brokers that have this listener: all of them, or those with the given ids."""
    for broker in image.brokers.values():
        listener = broker.listener(listener_name)
        if listener is not None and (broker_ids is None or broker.id in broker_ids):
            yield broker, listener
