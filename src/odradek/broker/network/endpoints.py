"""Where clients find the brokers: by the listener they came in by."""

from collections.abc import Container, Iterator

from odradek.config import Listener
from odradek.metadata import BrokerImage, ClusterImage


def reachable(
    image: ClusterImage, listener_name: str, wanted: Container[int] | None = None
) -> Iterator[tuple[BrokerImage, Listener]]:
    """The live brokers that have this listener, all of them or those wanted."""
    for broker in image.brokers.values():
        listener = broker.listener(listener_name)
        if listener is not None and (wanted is None or broker.id in wanted):
            yield broker, listener
