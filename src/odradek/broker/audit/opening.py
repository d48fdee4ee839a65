"""Makes the audit log that the settings of a broker ask for."""

from odradek.broker.audit.log import AuditLog
from odradek.broker.audit.sinks import FileSink, Sink, TopicSink
from odradek.broker.cluster_producer import ClusterProducer
from odradek.cluster.topics import Topics
from odradek.config import BrokerSettings, InvalidSetting
from odradek.config.audit_settings import TOPIC_SINK
from odradek.metadata import MetadataCache
from odradek.protocol.types import BrokerId
from odradek.replication.peers import Peers
from odradek.world import World

_FILE_NAME = "audit.log"


def open_audit(  # noqa: PLR0917 - all that a sink may need
    broker_id: BrokerId,
    settings: BrokerSettings,
    world: World,
    topics: Topics,
    cache: MetadataCache,
    peers: Peers,
) -> AuditLog:
    sink: Sink
    if settings.odradek_audit_sink == TOPIC_SINK:
        producer = ClusterProducer(settings.odradek_audit_topic, topics, cache, peers, "audit")
        sink = TopicSink(producer, world)
    else:
        sink = FileSink(
            world,
            _path(settings),
            max_bytes=settings.odradek_audit_max_file_bytes,
            max_backups=settings.odradek_audit_kept_files,
        )
    return AuditLog(broker_id, settings, world.clock, sink)


def _path(settings: BrokerSettings) -> str:
    if settings.odradek_audit_file:
        return settings.odradek_audit_file
    directory = settings.application_log_directory
    if directory is None:
        raise InvalidSetting(
            "odradek.audit.sink",
            settings.odradek_audit_sink,
            "odradek.logs.directory is none, so name the file with odradek.audit.file",
        )
    return f"{directory.rstrip('/')}/{_FILE_NAME}"
