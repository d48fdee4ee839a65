"""For each alert, series that make it fire, and series of a cluster where nothing is wrong.

Values are in the notation of promtool: `0+5x120` begins with 0 and adds 5 a minute, 120 times, and
`_` is a minute without a value. All alerts are judged after `HOURS`.
"""

from typing import Final

HOURS: Final = 3
_MINUTES: Final = HOURS * 60
_BROKER: Final = 'job="odradek",instance="a:9404"'


def _always(value: float) -> str:
    return f"{value}+0x{_MINUTES}"


def _rising(by: float, begin: float = 0) -> str:
    return f"{begin}+{by}x{_MINUTES}"


def _broker(series: str, values: str, labels: str = "") -> tuple[str, str]:
    return f"{series}{{{_BROKER}{labels}}}", values


def _lately(value: float, before: float, minutes: int) -> str:
    """The second value, and the first for the last minutes."""
    return f"{before}+0x{_MINUTES - minutes} {value}+0x{minutes}"


_CONTROLLERS: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_SHRINKS: Final = "kafka_server_replicamanager_isrshrinks_total"
_EXPANDS: Final = "kafka_server_replicamanager_isrexpands_total"
_IMBALANCE: Final = "kafka_controller_kafkacontroller_preferredreplicaimbalancecount"
_PARTITIONS: Final = "kafka_controller_kafkacontroller_globalpartitioncount"
_FREE: Final = "odradek_log_directory_free_bytes"
_TOTAL: Final = "odradek_log_directory_total_bytes"
_DIRECTORY: Final = ',directory="/d"'
_TIME: Final = "kafka_network_requestmetrics_totaltimems"
_PRODUCE_P99: Final = ',request="Produce",quantile="0.99"'
_STALL: Final = "odradek_loop_stall_seconds_bucket"
_PRODUCED: Final = "kafka_server_brokertopicmetrics_totalproducerequests_total"
_NOT_PRODUCED: Final = "kafka_server_brokertopicmetrics_failedproducerequests_total"
_FETCHED: Final = "kafka_server_brokertopicmetrics_totalfetchrequests_total"
_NOT_FETCHED: Final = "kafka_server_brokertopicmetrics_failedfetchrequests_total"
_UNCLEAN: Final = "kafka_controller_controllerstats_uncleanleaderelections_total"
_LAG: Final = "kafka_consumergroup_lag_sum"
_LAG_SECONDS: Final = "kafka_consumergroup_max_lag_seconds"
_MEMBERS: Final = "kafka_consumergroup_members"
_GROUP: Final = ',consumergroup="g"'
_GROUP_AND_TOPIC: Final = ',consumergroup="g",topic="t"'
_QUERY: Final = ',pipeline="p",query="q"'
_LAST_BATCH: Final = "odradek_pipeline_last_batch_timestamp_seconds"
_WAITING: Final = "odradek_pipeline_lag_records"
_RESTARTS: Final = "odradek_pipeline_restarts_total"

_UP: Final = _broker("up", _always(1))
_GB: Final = 10**9

# By series, so that a case replaces those that differ.
HEALTHY: Final = dict(
    [
        _UP,
        _broker("odradek_broker_ready", _always(1)),
        _broker("process_start_time_seconds", _always(1000)),
        _broker(_CONTROLLERS, _always(1)),
        (
            'kafka_controller_kafkacontroller_activecontrollercount{job="odradek",instance="b:9404"}',
            _always(0),
        ),
        _broker("odradek_broker_registered", _always(1)),
        _broker("odradek_broker_registrations_total", _always(1)),
        _broker("kafka_controller_kafkacontroller_offlinepartitionscount", _always(0)),
        _broker("kafka_server_replicamanager_underminisrpartitioncount", _always(0)),
        _broker("kafka_server_replicamanager_underreplicatedpartitions", _always(0)),
        _broker(_UNCLEAN, _always(0)),
        # A broker was away for a while, and came back.
        _broker(_SHRINKS, _lately(30, 0, 100)),
        _broker(_EXPANDS, _lately(30, 0, 80)),
        _broker("kafka_server_replicamanager_failedisrupdates_total", _always(1)),
        _broker(_IMBALANCE, _always(1)),
        _broker(_PARTITIONS, _always(60)),
        _broker("kafka_log_logmanager_offlinelogdirectorycount", _always(0)),
        _broker("odradek_log_directory_full", _always(0), _DIRECTORY),
        _broker(_FREE, _always(50 * _GB), _DIRECTORY),
        _broker(_TOTAL, _always(100 * _GB), _DIRECTORY),
        _broker("kafka_log_logcleanermanager_uncleanable_partitions_count", _always(0)),
        _broker(_TIME, _always(20), _PRODUCE_P99),
        # Fetches wait for records, and rebalances for members.
        _broker(_TIME, _always(5000), ',request="Fetch",quantile="0.99"'),
        _broker(_TIME, _always(60000), ',request="JoinGroup",quantile="0.99"'),
        _broker("kafka_network_requestchannel_requestqueuesize", _always(3)),
        _broker("kafka_network_socketserver_networkprocessoravgidle_percent", _always(0.6)),
        _broker(_STALL, _rising(600), ',le="0.001"'),
        _broker(_STALL, _rising(600), ',le="+Inf"'),
        _broker("process_open_fds", _always(200)),
        _broker("process_max_fds", _always(1000)),
        _broker(_PRODUCED, _rising(6000)),
        _broker(_NOT_PRODUCED, _rising(1)),
        _broker(_FETCHED, _rising(6000)),
        _broker(_NOT_FETCHED, _rising(1)),
        # A topic where most fails is told by the sum of the broker.
        _broker(_NOT_PRODUCED, _rising(1), ',topic="t"'),
        _broker(_PRODUCED, _rising(1), ',topic="t"'),
        _broker("odradek_network_connections_refused_total", _always(7)),
        _broker("kafka_network_socketserver_expiredconnectionskilledcount", _rising(1)),
        _broker(_LAG, _lately(900, 2000, 90), _GROUP_AND_TOPIC),
        _broker(_LAG_SECONDS, _always(5), _GROUP),
        _broker(_MEMBERS, _always(2), _GROUP),
        # A group that only commits, as a Spark query does, never has members.
        _broker(_MEMBERS, _always(0), ',consumergroup="commits"'),
        _broker(_LAG, _always(10), ',consumergroup="commits",topic="t"'),
        _broker(_LAST_BATCH, _rising(60), _QUERY),
        _broker(_WAITING, _always(100), _QUERY),
        _broker(_RESTARTS, _always(1), _QUERY),
        # A query that waits for records.
        _broker(_LAST_BATCH, _always(60), ',pipeline="p",query="idle"'),
        _broker(_WAITING, _always(0), ',pipeline="p",query="idle"'),
    ]
)

FIRING: Final = {
    "OdradekNotScraped": [('up{job="node",instance="a:9100"}', _always(1))],
    "OdradekBrokerDown": [_broker("up", _lately(0, 1, 2))],
    "OdradekBrokerNotReady": [_broker("odradek_broker_ready", _lately(0, 1, 16))],
    "OdradekBrokerRestarts": [
        _broker("process_start_time_seconds", f"1+0x{_MINUTES - 30} 2+0x9 3+0x9 4+0x9")
    ],
    "OdradekNoController": [_broker(_CONTROLLERS, _lately(0, 1, 2))],
    "OdradekTwoControllers": [
        (f'{_CONTROLLERS}{{job="odradek",instance="b:9404"}}', _lately(1, 0, 2)),
    ],
    "OdradekMetadataStoreDisconnected": [_broker("odradek_broker_registered", _lately(0, 1, 2))],
    "OdradekSessionExpired": [_broker("odradek_broker_registrations_total", _lately(2, 1, 30))],
    "OdradekOfflinePartitions": [
        _broker("kafka_controller_kafkacontroller_offlinepartitionscount", _lately(4, 0, 2))
    ],
    "OdradekUnderMinIsr": [
        _broker("kafka_server_replicamanager_underminisrpartitioncount", _lately(4, 0, 2))
    ],
    "OdradekUnderReplicatedPartitions": [
        _broker("kafka_server_replicamanager_underreplicatedpartitions", _lately(4, 0, 6))
    ],
    "OdradekUncleanLeaderElection": [_broker(_UNCLEAN, _lately(1, 0, 5))],
    "OdradekIsrFlapping": [_broker(_SHRINKS, _rising(1)), _broker(_EXPANDS, _rising(1))],
    "OdradekIsrUpdatesFail": [
        _broker("kafka_server_replicamanager_failedisrupdates_total", _rising(1))
    ],
    "OdradekLeadersNotPreferred": [_broker(_IMBALANCE, _lately(20, 0, 61))],
    "OdradekLogDirectoryOffline": [
        _broker("kafka_log_logmanager_offlinelogdirectorycount", _lately(1, 0, 1))
    ],
    "OdradekDiskFull": [_broker("odradek_log_directory_full", _lately(1, 0, 1), _DIRECTORY)],
    "OdradekDiskAlmostFull": [_broker(_FREE, _always(9 * _GB), _DIRECTORY)],
    # 33 GB are free after three hours, and 4 GB go each hour.
    "OdradekDiskFullSoon": [
        _broker(_FREE, f"{45 * _GB}-{_GB // 15}x{_MINUTES}", _DIRECTORY),
    ],
    "OdradekUncleanableLogs": [
        _broker("kafka_log_logcleanermanager_uncleanable_partitions_count", _lately(1, 0, 16))
    ],
    "OdradekRequestLatencyHigh": [_broker(_TIME, _lately(900, 5, 11), _PRODUCE_P99)],
    "OdradekRequestQueueLong": [
        _broker("kafka_network_requestchannel_requestqueuesize", _lately(300, 5, 6))
    ],
    "OdradekBrokerBusy": [
        _broker(
            "kafka_network_socketserver_networkprocessoravgidle_percent", _lately(0.02, 0.9, 11)
        )
    ],
    "OdradekEventLoopStalls": [
        _broker(_STALL, _rising(500), ',le="0.001"'),
        _broker(_STALL, _rising(600), ',le="0.5"'),
        _broker(_STALL, _rising(600), ',le="+Inf"'),
    ],
    "OdradekOpenFiles": [_broker("process_open_fds", _lately(900, 200, 6))],
    "OdradekProduceErrors": [_broker(_NOT_PRODUCED, _rising(100))],
    "OdradekFetchErrors": [_broker(_NOT_FETCHED, _rising(100))],
    "OdradekConnectionsRefused": [_broker("odradek_network_connections_refused_total", _rising(1))],
    "OdradekExpiredConnections": [
        _broker("kafka_network_socketserver_expiredconnectionskilledcount", _rising(20))
    ],
    "OdradekLagGrowing": [_broker(_LAG, _rising(60), _GROUP_AND_TOPIC)],
    "OdradekLagSecondsHigh": [_broker(_LAG_SECONDS, _lately(700, 1, 6), _GROUP)],
    "OdradekGroupWithoutMembers": [_broker(_MEMBERS, _lately(0, 2, 16), _GROUP)],
    "OdradekPipelineStuck": [_broker(_LAST_BATCH, _always(60), _QUERY)],
    "OdradekPipelineRestarts": [_broker(_RESTARTS, _rising(1), _QUERY)],
}
