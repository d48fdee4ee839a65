"""The controller, and this broker's place in the cluster."""

from collections.abc import Generator

from odradek import __version__
from odradek.broker.management.collectors.partitions import add_state, has_leader
from odradek.broker.management.sources import Sources, distribution
from odradek.metadata import ClusterImage
from odradek.metadata.node_values import NO_LEADER
from odradek.telemetry.catalogue import cluster as metrics
from odradek.telemetry.catalogue import exporter
from odradek.telemetry.declarations import Collected, Distribution

_RUNNING = 3
_MILLISECONDS = 0.001
_NO_ELECTIONS = Distribution(0, 0.0, (0.0,) * 6)


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    components, image = sources.components, sources.image
    is_controller = components.controller.is_active
    into.add(metrics.ACTIVE_CONTROLLERS, int(is_controller))
    into.add(metrics.BROKER_STATE, _RUNNING)
    into.add(metrics.REGISTERED, int(components.services.replicas.is_leased))
    into.add(metrics.READY, int(sources.is_ready()))
    into.add(metrics.REGISTRATIONS, sources.leadership.registrations)
    into.add(metrics.BUILD_INFO, 1, __version__)
    leadership = sources.leadership
    elections = _NO_ELECTIONS
    if leadership.elections.count:
        now_s = sources.clock.monotonic_s()
        elections = distribution(leadership.elections, now_s, _MILLISECONDS)
    into.add(metrics.ELECTIONS, elections)
    into.add(metrics.UNCLEAN_ELECTIONS, leadership.unclean_elections)
    if is_controller:
        yield from _collect_as_controller(sources, into, image)
        return
    for metric in (
        metrics.OFFLINE_PARTITIONS,
        metrics.IMBALANCE,
        metrics.GLOBAL_TOPICS,
        metrics.GLOBAL_PARTITIONS,
        metrics.TOPICS_TO_DELETE,
        metrics.ACTIVE_BROKERS,
    ):
        into.add(metric, 0)


def _collect_as_controller(
    sources: Sources, into: Collected, image: ClusterImage
) -> Generator[None, None, None]:
    offline = away = partitions = shown = 0
    for topic in image.topics.values():
        into.add(exporter.TOPIC_PARTITIONS, len(topic.partitions), topic.name)
        for state in topic.partitions:
            if not partitions % 100:
                yield
            partitions += 1
            away += bool(state.replicas) and state.leader != state.replicas[0]
            if has_leader(image, state):
                continue
            offline += 1
            if shown < sources.max_partitions:
                shown += 1
                add_state(into, (topic.name, str(state.partition)), state, NO_LEADER)
    into.add(metrics.OFFLINE_PARTITIONS, offline)
    into.add(metrics.IMBALANCE, away)
    into.add(metrics.GLOBAL_TOPICS, len(image.topics))
    into.add(metrics.GLOBAL_PARTITIONS, partitions)
    into.add(metrics.TOPICS_TO_DELETE, len(image.topics_to_delete))
    into.add(metrics.ACTIVE_BROKERS, len(image.brokers))
    into.add(exporter.BROKERS, len(image.brokers))
    for broker in image.brokers.values():
        if broker.listeners:
            first = broker.listeners[0]
            into.add(exporter.BROKER_INFO, 1, str(broker.id), f"{first.host}:{first.port}")
