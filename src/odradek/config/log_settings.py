"""Settings of the application logs: files with the messages of the broker, not with records."""

from odradek.config.kinds import integer, string
from odradek.config.setting import Importance, Scope, Settings

NO_FILES = "none"


class ApplicationLogSettings(Settings):
    odradek_logs_directory = string(
        "odradek.logs.directory",
        None,
        "The directory of the application logs: server.log, controller.log and others. If unset: "
        "the first log directory. `none`: no files, messages go to standard error only.",
    )
    odradek_logs_level = string(
        "odradek.logs.level",
        "INFO",
        "The lowest level of messages that are written to the application logs. The level of a "
        "single logger is changed while the broker runs with `odradek configs --broker-logger`.",
        choices=("ERROR", "WARN", "INFO", "DEBUG", "TRACE"),
    )
    odradek_logs_format = string(
        "odradek.logs.format",
        "text",
        "The format of lines in the application logs and on standard error: text (as Kafka writes "
        "them) or json (an object for each line, with timestamp, level, logger and message).",
        choices=("text", "json"),
    )
    odradek_logs_request_sample_every = integer(
        "odradek.logs.request.sample.every",
        1,
        "While the level of the request log is DEBUG, one of so many requests is written to it. "
        "Requests that are slow (odradek.logs.request.slow.ms) or that failed are always written.",
        at_least=1,
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    odradek_logs_request_slow_ms = integer(
        "odradek.logs.request.slow.ms",
        -1,
        "A request that took at least so many milliseconds is written to the request log although "
        "it is not one of the sample. The wait for others, such as replicas and new records, does "
        "not count. -1: no request is slow.",
        at_least=-1,
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    odradek_logs_max_file_bytes = integer(
        "odradek.logs.max.file.bytes",
        32 * 1024 * 1024,
        "The size at which the file of an application log is closed and a new file is started.",
        at_least=1024,
        importance=Importance.LOW,
    )
    odradek_logs_kept_files = integer(
        "odradek.logs.kept.files",
        4,
        "The number of closed files that are kept for each application log, as server.log.1 (the "
        "newest), server.log.2 and so on.",
        at_least=0,
        at_most=1000,
        importance=Importance.LOW,
    )
