"""Settings of Kafka that are known here and have no effect, each with the reason.

There are two kinds. A setting that is declared with `setting.without_effect` is described by
DescribeConfigs like any other. The settings in this file have no declaration: they are accepted,
so that a file written for Kafka works. `reason` knows both kinds. `sentence` is the line that
the broker logs once, at start, about settings with another value than their default.

A setting that gets an effect is removed from here and gets a declaration of its own.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.config.setting import Setting

# Names by reason. `name=value` gives Kafka's default: a file that sets just that, as the files that
# Kafka ships do, is not mentioned in the log.
_REASONS: Final = {
    "a broker is one process on one event loop": """
        num.network.threads=3 num.io.threads=8 background.threads=10
        num.replica.alter.log.dirs.threads group.coordinator.threads=4
        group.coordinator.background.threads=2 group.coordinator.new.enable=true
        """,
    "there is no KRaft quorum: see odradek.metadata.store": """
        process.roles controller.listener.names control.plane.listener.name
        early.start.listeners initial.broker.registration.timeout.ms=60000
        broker.heartbeat.interval.ms=2000 broker.session.timeout.ms=9000
        controller.socket.timeout.ms=30000 controller.performance.sample.period.ms=60000
        controller.performance.always.log.threshold.ms=2000
        server.max.startup.time.ms eligible.leader.replicas.enable
        unclean.leader.election.interval.ms=300000
        """,
    "there is one format of records and one version of the protocol between brokers": """
        inter.broker.protocol.version log.message.format.version
        log.message.downconversion.enable=true log.message.timestamp.difference.max.ms
        unstable.api.versions.enable=false unstable.feature.versions.enable=false
        """,
    "Java classes are not loaded": """
        create.topic.policy.class.name alter.config.policy.class.name
        client.quota.callback.class principal.builder.class metric.reporters
        kafka.metrics.reporters kafka.metrics.polling.interval.secs=10
        auto.include.jmx.reporter=true security.providers
        """,
    "there is no purgatory that must be purged": """
        fetch.purgatory.purge.interval.requests=1000
        producer.purgatory.purge.interval.requests=1000
        delete.records.purgatory.purge.interval.requests=1
        share.fetch.purgatory.purge.interval.requests=1000
        """,
    "there are no share groups": "share.fetch.max.fetch.records",
    "the coordinator chooses this itself": """
        group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes
        group.consumer.regex.refresh.interval.ms=600000 group.consumer.assignment.interval.ms
        group.consumer.min.assignment.interval.ms group.consumer.max.assignment.interval.ms
        """,
    "replicas do not move between log directories": """
        cordoned.log.dirs alter.log.dirs.replication.quota.window.num=11
        alter.log.dirs.replication.quota.window.size.seconds=1
        """,
    "there is no tiered storage": "follower.fetch.last.tiered.offset.enable",
    "metrics have no sample windows": """
        metrics.num.samples=2 metrics.recording.level=INFO metrics.sample.window.ms=30000
        """,
    # Refused with other values (`stock_files.REFUSALS`).
    "only false is accepted": "zookeeper.ssl.crl.enable=false zookeeper.ssl.ocsp.enable=false",
    "values are not looked up in providers": "config.providers",
    "OpenSSL does the work of Java's classes": """
        ssl.provider ssl.secure.random.implementation ssl.keymanager.algorithm
        ssl.trustmanager.algorithm ssl.engine.factory.class
        """,
    "a client of this broker's own process needs it, and there is none yet": """
        sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        """,
    "keys are fetched by one request, and tokens are checked in one way": """
        sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.header.urlencode=false
        """,
    "brokers find each other again after a fixed time": """
        socket.connection.setup.timeout.ms=10000 socket.connection.setup.timeout.max.ms=30000
        """,
}

_PREFIXES: Final = {
    "controller.quorum.": "there is no KRaft quorum: see odradek.metadata.store",
    "metadata.": "there is no KRaft quorum: see odradek.metadata.store",
    "zookeeper.": "the broker's ZooKeeper client has no such setting",
    "remote.": "there is no tiered storage",
    "rsm.config.": "there is no tiered storage",
    "rlmm.config.": "there is no tiered storage",
    "group.share.": "there are no share groups",
    "group.streams.": "there are no streams groups",
    "share.coordinator.": "there are no share groups",
    "password.encoder.": "no password is stored",
    "sasl.kerberos.": "tickets of a keytab are renewed without kinit",
    "sasl.login.": "the broker logs in when it connects",
    "metrics.context.": "metrics have no sample windows",
    "config.providers.": "config.providers is refused",
    "confluent.": "it is a setting of Confluent Server",
}


def _undeclared() -> dict[str, tuple[str | None, str]]:
    defaults_and_reasons: dict[str, tuple[str | None, str]] = {}
    for why, names in _REASONS.items():
        for word in names.split():
            name, _, default = word.partition("=")
            defaults_and_reasons[name] = (default or None, why)
    return defaults_and_reasons


# Name: (default, reason).
UNDECLARED: Final[Mapping[str, tuple[str | None, str]]] = _undeclared()
PREFIXES: Final[Mapping[str, str]] = _PREFIXES


def reason(name: str, setting: Setting[object] | None = None) -> str | None:
    """Returns why a setting has no effect; None if it has, or if the name is unknown.

    `setting` is its declaration, where it has one.
    """
    if setting is not None:
        return setting.no_effect or None
    if name in UNDECLARED:
        return UNDECLARED[name][1]
    for prefix, why in PREFIXES.items():
        if name.startswith(prefix):
            return why
    return None


def is_default(name: str, text: str, setting: Setting[object] | None = None) -> bool:
    """Returns whether `text` is Kafka's default of the setting."""
    if setting is not None:
        return setting.parse(text) == setting.default
    default = UNDECLARED.get(name, (None, ""))[0]
    return not text.strip() or text.strip() == default


def sentence(reasons: Iterable[tuple[str, str]]) -> str:
    """Returns one line about (name, reason) pairs, grouped by reason."""
    together: dict[str, list[str]] = {}
    for name, why in reasons:
        together.setdefault(why, []).append(name)
    parts = [f"{', '.join(names)} ({why})" for why, names in together.items()]
    return f"set, but without effect here: {'; '.join(parts)}"
