"""What causes each alert in a live cluster."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

from tests.scenarios.alert_broker_conditions import (
    a_broker_killed,
    a_broker_that_copies,
    a_follower_that_comes_and_goes,
    broker_paused_until_its_session_ends,
    controller_paused,
    damaged_compacted_log,
    disk_filled,
    isr_that_nobody_may_write,
    leaders_elsewhere,
    log_directory_gone,
    nothing_scraped,
    restarts,
    two_brokers_killed,
    two_clusters_in_one_job,
    unclean_election,
    zookeeper_killed,
)
from tests.scenarios.alert_client_conditions import (
    a_group_left_by_all,
    a_group_that_falls_behind,
    an_old_record_unread,
    few_files_allowed,
    flood,
    forgotten_connections,
    large_records,
    reads_beyond_the_end,
    slow_follower,
    stalls,
    too_many_connections,
)
from tests.scenarios.alert_cluster import AlertCluster
from tests.scenarios.alert_pipeline_conditions import a_pipeline_that_fails_and_hangs

_SESSION_TIMEOUT: Final = "odradek.metadata.session.timeout.ms"
"""Brokers of `odradek up` without ZooKeeper have sessions with its own metadata service."""
Causing = Callable[[AlertCluster], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Cause:
    """Alerts that one condition causes. `settings` are those of the brokers."""

    alerts: tuple[str, ...]
    causing: Causing
    settings: dict[str, str] = field(default_factory=dict)
    has_zookeeper: bool = False
    disk_mb: int = 0
    """The size of the disk on which broker 1 has its data, if it is a small one."""


CAUSES: Final = (
    Cause(("OdradekNotScraped",), nothing_scraped),
    Cause(
        ("OdradekBrokerDown", "OdradekOfflinePartitions", "OdradekUnderReplicatedPartitions"),
        a_broker_killed,
    ),
    Cause(("OdradekBrokerNotReady",), a_broker_that_copies),
    Cause(("OdradekBrokerRestarts",), restarts),
    Cause(("OdradekNoController",), controller_paused, {_SESSION_TIMEOUT: "60000"}),
    Cause(("OdradekTwoControllers",), two_clusters_in_one_job),
    Cause(("OdradekMetadataStoreDisconnected",), zookeeper_killed, has_zookeeper=True),
    Cause(
        ("OdradekSessionExpired",),
        broker_paused_until_its_session_ends,
        {_SESSION_TIMEOUT: "3000"},
    ),
    Cause(("OdradekUnderMinIsr",), two_brokers_killed),
    Cause(("OdradekUncleanLeaderElection",), unclean_election),
    Cause(
        ("OdradekIsrFlapping",),
        a_follower_that_comes_and_goes,
        {"replica.lag.time.max.ms": "1000", _SESSION_TIMEOUT: "30000"},
    ),
    Cause(("OdradekIsrUpdatesFail",), isr_that_nobody_may_write, has_zookeeper=True),
    Cause(
        ("OdradekLeadersNotPreferred",),
        leaders_elsewhere,
        {"auto.leader.rebalance.enable": "false"},
    ),
    Cause(("OdradekLogDirectoryOffline",), log_directory_gone),
    Cause(
        ("OdradekDiskFull", "OdradekDiskAlmostFull", "OdradekDiskFullSoon"),
        disk_filled,
        disk_mb=64,
    ),
    Cause(("OdradekUncleanableLogs",), damaged_compacted_log, {"log.cleaner.backoff.ms": "200"}),
    Cause(("OdradekRequestLatencyHigh",), slow_follower),
    # On a machine that others use up, only root can give the broker a processor of its own.
    Cause(("OdradekBrokerBusy",), flood),
    Cause(("OdradekRequestQueueLong",), flood),
    Cause(("OdradekEventLoopStalls",), stalls),
    Cause(("OdradekOpenFiles",), few_files_allowed),
    Cause(("OdradekProduceErrors",), large_records),
    Cause(("OdradekFetchErrors",), reads_beyond_the_end),
    Cause(("OdradekConnectionsRefused",), too_many_connections, {"max.connections.per.ip": "30"}),
    Cause(
        ("OdradekExpiredConnections",),
        forgotten_connections,
        {"connections.max.idle.ms": "1000"},
    ),
    Cause(("OdradekLagGrowing",), a_group_that_falls_behind),
    Cause(("OdradekLagSecondsHigh",), an_old_record_unread),
    Cause(("OdradekGroupWithoutMembers",), a_group_left_by_all),
    Cause(("OdradekPipelineRestarts", "OdradekPipelineStuck"), a_pipeline_that_fails_and_hangs),
)
