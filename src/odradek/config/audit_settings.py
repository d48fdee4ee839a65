"""Settings of the audit log: who logged in, who was denied what, who changed the cluster."""

from odradek.config.kinds import integer, names, string
from odradek.config.setting import Importance, Settings

NO_SINK = "none"
FILE_SINK = "file"
TOPIC_SINK = "topic"


class AuditSettings(Settings):
    """None of them can be changed while the broker runs: a client that may change settings could
    else silence the log before it does something."""

    odradek_audit_sink = string(
        "odradek.audit.sink",
        NO_SINK,
        "Where audit events are written, as lines of JSON: `file` or `topic`. `none`: there is no "
        "audit log.",
        choices=(NO_SINK, FILE_SINK, TOPIC_SINK),
        importance=Importance.HIGH,
    )
    odradek_audit_events = names(
        "odradek.audit.events",
        ("authentication", "denied", "changes"),
        "Which events are written: `authentication` (log-ins and failed ones), `denied` and "
        "`allowed` (decisions of the authorizer about operations of clients), `changes` (of "
        "topics, settings, ACLs, roles, users and so on). `allowed` writes an event for every "
        "request.",
        choices=("authentication", "denied", "allowed", "changes"),
    )
    odradek_audit_file = string(
        "odradek.audit.file",
        None,
        "The file of the audit log. If unset: audit.log in the directory of the application logs.",
    )
    odradek_audit_topic = string(
        "odradek.audit.topic",
        "odradek-audit",
        "The topic of the audit log. It is created with the default number of partitions and "
        "replicas if it does not exist.",
        may_be_empty=False,
    )
    odradek_audit_buffer_events = integer(
        "odradek.audit.buffer.events",
        10_000,
        "How many events may wait for the file or the topic. Further ones are dropped and counted; "
        "requests never wait.",
        at_least=1,
        at_most=1_000_000,
        importance=Importance.LOW,
    )
    odradek_audit_max_file_bytes = integer(
        "odradek.audit.max.file.bytes",
        64 * 1024 * 1024,
        "The size at which the file of the audit log is closed and a new file is started.",
        at_least=1024,
        importance=Importance.LOW,
    )
    odradek_audit_kept_files = integer(
        "odradek.audit.kept.files",
        10,
        "The number of closed files of the audit log that are kept, as audit.log.1 (the newest), "
        "audit.log.2 and so on.",
        at_least=0,
        at_most=1000,
        importance=Importance.LOW,
    )
