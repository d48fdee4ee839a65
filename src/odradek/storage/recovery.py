"""Makes the log of a partition from what is on disk.

After a clean shutdown everything on disk is taken at its word. After a crash, segments that
reach beyond the recovery point are read batch by batch: the first batch that is cut short,
fails its checksum or goes back in offsets ends the log; indexes, leader epochs and producer
state are rebuilt on the way.
"""

from odradek.config import TopicSettings
from odradek.protocol.types import TopicId, TopicPartition
from odradek.storage.checkpoints import encode_partition_metadata
from odradek.storage.directory import LogDirectory
from odradek.storage.log import Log
from odradek.storage.names import PARTITION_METADATA, partition_directory
from odradek.storage.segments import Segments
from odradek.world import World


def create_log(
    topic_partition: TopicPartition,
    topic_id: TopicId,
    directory: LogDirectory,
    settings: TopicSettings,
    world: World,
) -> Log:
    """A new, empty log: a directory that says whose it is. Segments come with the first append."""
    path = f"{directory.path}/{partition_directory(topic_partition)}"
    directory.disk.make_directories(path)
    # Not synced: a power cut may take the file, but the metadata store knows the id too.
    file = directory.disk.open(f"{path}/{PARTITION_METADATA}", create=True)
    try:
        file.write_at(0, [encode_partition_metadata(topic_id)])
    finally:
        file.close()
    segments = Segments(path, directory.stores)
    segments.add(0, world.clock.now_ms())
    log = Log(topic_partition, topic_id, directory, settings, world, segments=segments)
    log.flusher.has_new_names = log.flusher.is_new_directory = True
    return log
