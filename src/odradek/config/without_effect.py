"""Kafka's settings that mean nothing here: accepted, so that a file written for Kafka works.

They belong to threads, quorums, tiered storage and class loading that Odradek does not have.
A name that gets a meaning moves from here to its own declaration.
"""

from typing import Final

NAMES: Final = frozenset(
    """
    num.network.threads num.io.threads background.threads num.replica.alter.log.dirs.threads
    process.roles controller.listener.names control.plane.listener.name early.start.listeners
    controller.socket.timeout.ms controller.performance.sample.period.ms
    controller.performance.always.log.threshold.ms
    initial.broker.registration.timeout.ms broker.heartbeat.interval.ms broker.session.timeout.ms
    broker.id.generation.enable reserved.broker.max.id server.max.startup.time.ms
    eligible.leader.replicas.enable unclean.leader.election.interval.ms
    inter.broker.protocol.version log.message.format.version log.message.downconversion.enable
    log.message.timestamp.difference.max.ms
    unstable.api.versions.enable unstable.feature.versions.enable
    create.topic.policy.class.name alter.config.policy.class.name client.quota.callback.class
    fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
    delete.records.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests
    share.fetch.max.fetch.records
    group.coordinator.new.enable group.coordinator.threads
    group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes
    group.consumer.regex.refresh.interval.ms group.consumer.assignment.interval.ms
    group.consumer.min.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.coordinator.background.threads
    cordoned.log.dirs follower.fetch.last.tiered.offset.enable
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    auto.include.jmx.reporter kafka.metrics.reporters kafka.metrics.polling.interval.secs
    telemetry.max.bytes
    principal.builder.class connections.max.reauth.ms config.providers
    connection.failed.authentication.delay.ms
    socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
    """.split()  # noqa: SIM905  - eighty quoted names would say less
)

PREFIXES: Final = (
    "controller.quorum.",
    "metadata.",
    "zookeeper.",
    "remote.",
    "rsm.config.",
    "rlmm.config.",
    "group.share.",
    "group.streams.",
    "share.coordinator.",
    "delegation.token.",
    "password.encoder.",
    "ssl.",
    "sasl.",
    "security.providers",
    "listener.name.",
    "metrics.context.",
    "config.providers.",
    "confluent.",
)


def is_without_effect(name: str) -> bool:
    return name in NAMES or name.startswith(PREFIXES)
