"""Reassignment plans: Kafka's JSON files, and new plans that move few replicas.

Nothing here asks a broker. A plan maps each partition to the ids of its brokers; the first one is
the preferred leader.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from odradek.protocol.types import TopicPartition
from odradek.tools.failures import CommandFailed
from odradek.tools.files import entry_number, entry_text, json_entries

Plan = dict[TopicPartition, list[int]]


# Files


def plan_as_json(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Writes the JSON that `--reassignment-json-file` reads, here and in Kafka."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": ["any"] * len(replicas),
        }
        for partition, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


PLAN_EXAMPLE: Final = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
PARTITIONS_EXAMPLE: Final = '{"version":1,"partitions":[{"topic":"t","partition":0}]}'
TOPICS_EXAMPLE: Final = '{"version":1,"topics":[{"topic":"t"}]}'
PROPOSED: Final = "Proposed partition reassignment configuration"


def _proposed(text: str) -> str:
    """Returns the proposed plan if the text is the whole output of `--generate`, with its headings
    or with `--json`; else the text."""
    _, heading, rest = text.partition(PROPOSED)
    if heading:
        return rest
    try:
        content = json.loads(text)
    except ValueError:
        return text
    if isinstance(content, dict) and "proposed" in content:
        return json.dumps(content["proposed"])
    return text


def read_plan(text: str, source: str) -> Plan:
    """Reads a plan: Kafka's JSON, or the output of `--generate` as it was printed."""
    plan: Plan = {}
    for entry in json_entries(_proposed(text), source, "partitions", PLAN_EXAMPLE):
        partition = _partition(entry, source)
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not all(type(broker) is int for broker in replicas):
            raise CommandFailed(
                f"{source}: {partition} needs replicas, the ids of brokers, as in {PLAN_EXAMPLE}"
            )
        if partition in plan:
            raise CommandFailed(f"{source} has {partition} twice")
        if not replicas or len(set(replicas)) != len(replicas):
            raise CommandFailed(f"{source}: {partition} needs brokers, each of them once")
        if any(directory != "any" for directory in entry.get("log_dirs") or ()):
            raise CommandFailed(
                f'{source}: {partition} names log directories; only "any" is possible here'
            )
        plan[partition] = replicas
    return plan


def _partition(entry: "dict[str, Any]", source: str) -> TopicPartition:
    return TopicPartition(
        entry_text(entry, "topic", source), entry_number(entry, "partition", source)
    )


def read_partitions(text: str, source: str) -> list[TopicPartition]:
    """Reads the file of an election: `{"partitions": [{"topic": "t", "partition": 0}]}`."""
    partitions: dict[TopicPartition, None] = {}
    for entry in json_entries(text, source, "partitions", PARTITIONS_EXAMPLE):
        partition = _partition(entry, source)
        if partition in partitions:
            raise CommandFailed(f"{source} has {partition} twice")
        partitions[partition] = None
    return list(partitions)


def read_topics(text: str, source: str) -> list[str]:
    """Reads the file of topics to move: `{"topics": [{"topic": "t"}], "version": 1}`."""
    entries = json_entries(text, source, "topics", TOPICS_EXAMPLE)
    names = [entry_text(entry, "topic", source) for entry in entries]
    for name, count in Counter(names).items():
        if count > 1:
            raise CommandFailed(f"{source} has topic {name} twice")
    return names


# Plans


def spread(
    current: Mapping[TopicPartition, Sequence[int]],
    brokers: Mapping[int, str | None],
    *,
    replication_factor: int | None = None,
) -> Plan:
    """Plans an even distribution of the partitions over these brokers (id to rack), with few
    moves."""
    loads = Counter(dict.fromkeys(brokers, 0))
    plan = {
        partition: [broker for broker in current[partition] if broker in brokers]
        for partition in sorted(current)
    }
    replica_counts = {
        partition: min(replication_factor or len(current[partition]), len(brokers))
        for partition in plan
    }
    for partition, replicas in plan.items():
        _shrink(replicas, replica_counts[partition], brokers)
        loads.update(replicas)
    for partition, replicas in plan.items():
        while len(replicas) < replica_counts[partition]:
            chosen = _best(replicas, loads, brokers)
            replicas.append(chosen)
            loads[chosen] += 1
    _even_out(plan, loads, brokers)
    _share_leadership(plan)
    return plan


def without(
    leaver: int,
    current: Mapping[TopicPartition, Sequence[int]],
    brokers: Mapping[int, str | None],
    elsewhere: Mapping[int, int],
) -> Plan:
    """Plans to replace one broker by others, and changes nothing else.

    If every other broker has a replica already, the partition gets one replica less."""
    loads = Counter(dict.fromkeys(brokers, 0))
    loads.update({broker: count for broker, count in elsewhere.items() if broker in loads})
    loads.update(
        broker for replicas in current.values() for broker in replicas if broker in brokers
    )
    plan: Plan = {}
    for partition, replicas in sorted(current.items()):
        stay = [broker for broker in replicas if broker != leaver]
        plan[partition] = stay
        if any(broker not in stay for broker in brokers):
            chosen = _best([broker for broker in stay if broker in brokers], loads, brokers)
            loads[chosen] += 1
            plan[partition] = [chosen if broker == leaver else broker for broker in replicas]
    return plan


def _shrink(replicas: list[int], count: int, brokers: Mapping[int, str | None]) -> None:
    """Removes replicas, first those that share a rack with another one, from the end of the
    list."""
    while len(replicas) > count:
        racks = Counter(brokers[broker] for broker in replicas)
        shared = [broker for broker in replicas[1:] if racks[brokers[broker]] > 1]
        replicas.remove(shared[-1] if shared else replicas[-1])


def _best(
    replicas: Sequence[int], loads: Mapping[int, int], brokers: Mapping[int, str | None]
) -> int:
    """Returns a broker without a replica, if possible in a rack without one; of those the one with
    the fewest replicas."""
    racks = {brokers[broker] for broker in replicas}
    free = [broker for broker in brokers if broker not in replicas]
    return min(free, key=lambda broker: (brokers[broker] in racks, loads[broker], broker))


def _even_out(plan: Plan, loads: "Counter[int]", brokers: Mapping[int, str | None]) -> None:
    while True:
        for idle in sorted(loads, key=lambda broker: (loads[broker], broker)):
            if _move_one_replica(plan, loads, brokers, idle):
                break
        else:
            return


def _move_one_replica(
    plan: Plan, loads: "Counter[int]", brokers: Mapping[int, str | None], idle: int
) -> bool:
    """Moves one replica to the idle broker from a broker that has at least two more, if
    possible."""
    for busy in sorted(loads, key=lambda broker: (-loads[broker], broker)):
        if loads[busy] - loads[idle] < 2:
            return False
        for replicas in plan.values():
            if busy not in replicas or idle in replicas:
                continue
            racks = {brokers[broker] for broker in replicas if broker != busy}
            if brokers[idle] in racks and brokers[busy] not in racks:
                continue
            replicas[replicas.index(busy)] = idle
            loads[busy] -= 1
            loads[idle] += 1
            return True
    return False


def _share_leadership(plan: Plan) -> None:
    """Puts another replica first where its broker has at least two preferred leaders fewer."""
    leaders = Counter(
        dict.fromkeys((broker for replicas in plan.values() for broker in replicas), 0)
    )
    leaders.update(replicas[0] for replicas in plan.values() if replicas)
    changed = True
    while changed:
        changed = False
        for replicas in plan.values():
            first = replicas[0]
            idlest = min(replicas, key=lambda broker: (leaders[broker], broker))
            if leaders[first] - leaders[idlest] >= 2:
                replicas.remove(idlest)
                replicas.insert(0, idlest)
                leaders[first] -= 1
                leaders[idlest] += 1
                changed = True


def joined(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(f"{partition.topic}-{partition.partition}" for partition in sorted(partitions))
