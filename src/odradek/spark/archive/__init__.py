"""Topics in Parquet files, each record exactly once, and back into topics.

    from odradek.spark.archive import Archive, Reading, Restoring, restore

    archive = Archive(session, "hdfs://names/kafka")
    source = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}
    with archive.writer() as writer:
        writer.append(Reading(source))
        writer.merge_small_files()
    archive.read("clicks").count()
    restore(archive, Restoring("clicks", source, to_topic="clicks-again"))

How it holds together is in docs/archive.md.
"""

from odradek.spark.archive.archiving import Appended, Archive, ArchiveBroken, ArchiveWriter, Reading
from odradek.spark.archive.entries import DamagedArchive
from odradek.spark.archive.filesystem import FilesystemFailed
from odradek.spark.archive.log import NoArchive, TakenOver
from odradek.spark.archive.plans import DataLoss
from odradek.spark.archive.restoring import Restored, Restoring, restore
from odradek.spark.archive.sending import RestoreFailed

__all__ = [
    "Appended",
    "Archive",
    "ArchiveBroken",
    "ArchiveWriter",
    "DamagedArchive",
    "DataLoss",
    "FilesystemFailed",
    "NoArchive",
    "Reading",
    "RestoreFailed",
    "Restored",
    "Restoring",
    "TakenOver",
    "restore",
]
