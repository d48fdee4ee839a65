"""The topics that a producer has sent to lately, as `Producer.send` needs them for each record."""

import asyncio

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import Topic
from odradek.client.producer.accumulator import PartitionQueue
from odradek.client.producer.sender import Sender
from odradek.protocol.types import TopicPartition


class TopicTarget:
    """What `send` needs to know of a topic; it is made again when metadata changes."""

    __slots__ = ("all_partitions", "available_partitions", "is_used", "last_used_s", "queues")

    def __init__(self, topic: Topic, queues: dict[int, PartitionQueue]) -> None:
        self.all_partitions = topic.all_partitions
        self.available_partitions = topic.available_partitions
        self.queues = queues
        self.is_used = True
        self.last_used_s = 0.0


class TopicTargets:
    """Makes them, and forgets topics to which nothing was sent for `metadata.max.idle.ms`."""

    def __init__(self, max_idle_ms: int) -> None:
        self.by_name: dict[str, TopicTarget] = {}
        self._max_idle_s = max_idle_ms / 1000

    def make(self, topic: Topic, sender: Sender) -> TopicTarget:
        queues = {
            index: sender.queue(TopicPartition(topic.name, index), topic.id)
            for index in topic.all_partitions
        }
        target = self.by_name[topic.name] = TopicTarget(topic, queues)
        return target

    def make_again(self, cluster: Cluster, sender: Sender) -> None:
        """Called when metadata has changed."""
        now_s = asyncio.get_running_loop().time()
        for name, target in list(self.by_name.items()):
            topic = cluster.view.topics.get(name)
            if target.is_used:
                target.is_used = False
                target.last_used_s = now_s
            if topic is None:
                del self.by_name[name]
            elif now_s - target.last_used_s > self._max_idle_s and sender.forget(name):
                del self.by_name[name]
                cluster.untrack(name)
            else:
                remade = self.make(topic, sender)
                remade.is_used = False
                remade.last_used_s = target.last_used_s
