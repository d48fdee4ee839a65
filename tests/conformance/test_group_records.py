"""What stands in `__consumer_offsets`: Apache Kafka's tool reads ours as it reads its own."""

import re
from pathlib import Path

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess
from odradek.protocol.errors import ErrorCode
from tests.conformance.patience import eventually
from tests.conformance.test_group_errors import talk

# Ids and times are of the run; what is left must be the same everywhere.
_OF_THE_RUN = (
    (r"one-[0-9a-f-]{36}", "one-ID"),
    (r"g-[0-9a-f]{12}", "GROUP"),
    (r"t-[0-9a-f]{12}", "TOPIC"),
    (r'("(?:commitTimestamp|currentStateTimestamp)":)\d+', r"\1TIME"),
    (r'"topicId":"[^"]*"', '"topicId":"ID"'),
)


def payloads(kafka: ApacheKafka, directory: Path, group: str) -> list[str]:
    """The keys and values about a group, in the order they were written."""
    files = [each for each in directory.glob("__consumer_offsets-*/*.log") if each.stat().st_size]
    named = ",".join(str(each) for each in files)
    shown = kafka.run_tool("dump-log", "--offsets-decoder", "--files", named)
    found = []
    for line in shown.splitlines():
        at = line.find(" key: ")
        if at >= 0 and group in line:
            text = line[at:]
            for pattern, replacement in _OF_THE_RUN:
                text = re.sub(pattern, replacement, text)
            found.append(text.strip())
    return found


async def test_kafka_reads_our_records_as_it_reads_its_own(
    any_broker: BrokerProcess, kafka_home: ApacheKafka
) -> None:
    async with talk(any_broker) as client:
        group = client.group
        assert await client.commit(metadata="alone") == ErrorCode.NONE
        member = await client.stable_member("one")
        assert await client.commit(member, 1, instance="one") == ErrorCode.NONE
        await client.join(instance="one")
        assert await client.leave(("", "one")) == [ErrorCode.NONE]
        assert await client.delete_offset() == (ErrorCode.NONE, ErrorCode.NONE)
    eventually(
        lambda: payloads(kafka_home, any_broker.data_directory, group),
        lambda found: found == EXPECTED,
    )


_OFFSET_KEY = 'key: {"type":"1","data":{"group":"GROUP","topic":"TOPIC","partition":0}} payload: '
_GROUP_KEY = 'key: {"type":"2","data":{"group":"GROUP"}} payload: '


def _offset(metadata: str) -> str:
    return (
        f'{_OFFSET_KEY}{{"version":"4","data":{{"offset":5,"leaderEpoch":-1,'
        f'"metadata":"{metadata}","commitTimestamp":TIME,"topicId":"ID"}}}}'
    )


_STABLE = (
    f'{_GROUP_KEY}{{"version":"3","data":{{"protocolType":"consumer","generation":1,'
    '"protocol":"range","leader":"one-ID","currentStateTimestamp":TIME,"members":['
    '{"memberId":"one-ID","groupInstanceId":"one","clientId":"conformance",'
    '"clientHost":"/127.0.0.1","rebalanceTimeout":5000,"sessionTimeout":30000,'
    '"subscription":{"topics":["TOPIC"],"userData":null},"assignment":"bWluZQ=="}]}}'
)
_EMPTY = (
    f'{_GROUP_KEY}{{"version":"3","data":{{"protocolType":"consumer","generation":2,'
    '"protocol":null,"leader":null,"currentStateTimestamp":TIME,"members":[]}}'
)
EXPECTED = [_offset("alone"), _STABLE, _offset("note"), _STABLE, _EMPTY, f"{_OFFSET_KEY}<DELETE>"]
