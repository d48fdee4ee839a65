"""Plans, loads and states in the JSON of Cruise Control's REST calls.

Only what is known is filled in. CPU is not measured here, and neither is what consumers read, so
those figures are 0. Goals have the names of Cruise Control's goals that come nearest.
"""

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any, Final

from odradek.ops.balance.execution import Progress
from odradek.ops.balance.goals import LEAVING_BROKERS, PREFERRED_LEADERS
from odradek.ops.balance.model import ClusterModel, Resource
from odradek.ops.balance.plan import GoalResult, Plan

VERSION: Final = 1
_MB: Final = 1 << 20
GOALS: Final = {
    "rack awareness": "RackAwareDistributionGoal",
    "replica capacity": "ReplicaCapacityGoal",
    "disk capacity": "DiskCapacityGoal",
    "replica spread": "ReplicaDistributionGoal",
    "leader spread": "LeaderReplicaDistributionGoal",
    "byte-rate spread": "NetworkInboundUsageDistributionGoal",
    "leader byte-rate spread": "LeaderBytesInDistributionGoal",
    "disk spread": "DiskUsageDistributionGoal",
    PREFERRED_LEADERS: "PreferredLeaderElectionGoal",
}
_STATISTICS: Final = {
    "disk": Resource.DISK,
    "networkInbound": Resource.RATE,
    "replicas": Resource.REPLICAS,
    "leaderReplicas": Resource.LEADERS,
}


def load_json(model: ClusterModel) -> dict[str, Any]:
    """The answer to `load`, and the loads in a plan."""
    loads = model.current_loads()
    brokers = []
    for broker in model.brokers.values():
        load = loads[broker.id]
        capacity = broker.capacity_bytes
        share = 100 * load[Resource.DISK] / capacity if capacity else 0.0
        brokers.append(
            {
                "Host": str(broker.id),
                "Broker": broker.id,
                "Rack": broker.rack or str(broker.id),
                "BrokerState": "ALIVE" if broker.is_alive else "DEAD",
                "DiskMB": load[Resource.DISK] / _MB,
                "DiskPct": share,
                "DiskCapacityMB": (capacity or 0) / _MB,
                "LeaderNwInRate": load[Resource.LEADER_RATE] / 1024,
                "FollowerNwInRate": (load[Resource.RATE] - load[Resource.LEADER_RATE]) / 1024,
                "Replicas": round(load[Resource.REPLICAS]),
                "Leaders": round(load[Resource.LEADERS]),
                "CpuPct": 0.0,
                "NwOutRate": 0.0,
                "PnwOutRate": 0.0,
                "NetworkInCapacity": 0.0,
                "NetworkOutCapacity": 0.0,
                "NumCore": 0,
            }
        )
    return {"hosts": [], "brokers": brokers, "version": VERSION}


def plan_json(plan: Plan, *, verbose: bool, excluded: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to `proposals`, `rebalance` and the calls about brokers."""
    content: dict[str, Any] = {
        "summary": _summary(plan, excluded),
        "goalSummary": [
            {
                "goal": GOALS[goal.name],
                "status": _status(goal),
                "optimizationTimeMs": 0,
                "clusterModelStats": _statistics(plan.after),
            }
            for goal in plan.goals
            if goal.name != LEAVING_BROKERS
        ],
        "loadAfterOptimization": load_json(plan.after),
        "version": VERSION,
    }
    if verbose:
        content["loadBeforeOptimization"] = load_json(plan.before)
        content["proposals"] = [
            {
                "topicPartition": str(move.partition),
                "oldLeader": move.leader,
                "oldReplicas": list(move.before),
                "newReplicas": list(move.after),
            }
            for move in plan.moves
        ]
    return content


def _summary(plan: Plan, excluded: Sequence[str]) -> dict[str, Any]:
    leaders = {move.partition for move in plan.moves if not move.adding} | set(plan.elections)
    return {
        "numReplicaMovements": plan.replicas_moved,
        "dataToMoveMB": plan.bytes_to_move // _MB,
        "numIntraBrokerReplicaMovements": 0,
        "intraBrokerDataToMoveMB": 0,
        "numLeaderMovements": len(leaders),
        "recentWindows": 1,
        "monitoredPartitionsPercentage": 100.0,
        "excludedTopics": list(excluded),
        "excludedBrokersForReplicaMove": [],
        "excludedBrokersForLeadership": [],
        "onDemandBalancednessScoreBefore": _score([goal.before for goal in plan.goals]),
        "onDemandBalancednessScoreAfter": _score([goal.after for goal in plan.goals]),
        "provisionStatus": "UNDECIDED",
        "provisionRecommendation": "; ".join(plan.warnings),
    }


def _score(costs: Sequence[float]) -> float:
    """How many goals are met, in percent."""
    return 100.0 * sum(cost <= 0 for cost in costs) / max(1, len(costs))


def _status(goal: GoalResult) -> str:
    if not goal.is_met:
        return "VIOLATED"
    return "FIXED" if goal.before > 0 else "NO-ACTION"


def _statistics(model: ClusterModel) -> dict[str, Any]:
    loads = model.current_loads()
    values = {
        name: [loads[broker][resource] for broker in model.alive] or [0.0]
        for name, resource in _STATISTICS.items()
    }
    return {
        "metadata": {
            "brokers": len(model.alive),
            "replicas": sum(len(partition.replicas) for partition in model.partitions.values()),
            "topics": len({name.topic for name in model.partitions}),
        },
        "statistics": {
            "AVG": {name: fmean(numbers) for name, numbers in values.items()},
            "STD": {name: pstdev(numbers) for name, numbers in values.items()},
            "MIN": {name: min(numbers) for name, numbers in values.items()},
            "MAX": {name: max(numbers) for name, numbers in values.items()},
        },
    }


def state_json(
    model: ClusterModel, progress: Progress | None, task_id: str | None
) -> dict[str, Any]:
    """The answer to `state`."""
    return {
        "MonitorState": {
            "state": "RUNNING",
            "numTotalPartitions": len(model.partitions),
            "numValidPartitions": len(model.partitions),
            "monitoringCoveragePct": 100.0,
            "numMonitoredWindows": 1,
            "trained": True,
            "trainingPct": 100.0,
        },
        "ExecutorState": _executor(progress, task_id),
        "AnalyzerState": {"isProposalReady": True, "readyGoals": list(GOALS.values())},
        "version": VERSION,
    }


def _executor(progress: Progress | None, task_id: str | None) -> dict[str, Any]:
    if progress is None or not (progress.is_alive or progress.is_interrupted):
        return {"state": "NO_TASK_IN_PROGRESS"}
    state: dict[str, Any] = {
        "state": (
            "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS"
            if progress.moving or progress.waiting
            else "LEADER_MOVEMENT_TASK_IN_PROGRESS"
        ),
        "numTotalPartitionMovements": len(progress.entry.moves),
        "numFinishedPartitionMovements": progress.arrived,
        "numInProgressPartitionMovements": progress.moving,
        "numPendingPartitionMovements": progress.waiting,
        "totalDataToMove": sum(move.bytes_to_move for move in progress.entry.moves) // _MB,
        "triggeredUserTaskId": task_id or "",
    }
    if progress.is_interrupted:
        # A process that carried it out was killed; brokers go on with what they move.
        state["error"] = (
            "the run was interrupted; stop_proposal_execution stops it and removes the throttles"
        )
    return state
