"""Settings of the application logs: files with the messages of the broker, not with records."""

from odradek.config.kinds import integer, string
from odradek.config.setting import Importance, Settings

NO_FILES = "none"


class ApplicationLogSettings(Settings):
    odradek_logs_directory = string(
        "odradek.logs.directory",
        None,
        "Where server.log, controller.log and the broker's other logs go: the first data directory"
        " unless set, or `none` for standard error alone.",
    )
    odradek_logs_level = string(
        "odradek.logs.level",
        "INFO",
        "From which level on messages go to files. Loggers are changed one by one, while the"
        " broker runs, with `odradek configs --broker-logger`.",
        choices=("ERROR", "WARN", "INFO", "DEBUG", "TRACE"),
    )
    odradek_logs_max_file_bytes = integer(
        "odradek.logs.max.file.bytes",
        32 * 1024 * 1024,
        "How long each of these logs grows before the next file is begun.",
        at_least=1024,
        importance=Importance.LOW,
    )
    odradek_logs_kept_files = integer(
        "odradek.logs.kept.files",
        4,
        "How many full files are kept of each log, as server.log.1 (the newest) and so on.",
        at_least=0,
        at_most=1000,
        importance=Importance.LOW,
    )
