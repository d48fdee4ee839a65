"""Figures of a worker for Prometheus, by the names that Kafka Connect's dashboards ask for.

They are those that the JMX exporter gives to Connect's MBeans with the rules of Strimzi's example.
A worker serves what runs on it; what the leader knows of all is served by the leader alone.
"""

from typing import TYPE_CHECKING, Final

from odradek.connect.engine.engine import TaskId
from odradek.connect.worker.status_state import State
from odradek.services.metrics import ServiceMetrics
from odradek.telemetry.declarations import Collected, counter, gauge

if TYPE_CHECKING:
    from odradek.connect.worker.server import ConnectService

_TASK: Final = ("connector", "task")
CONNECTOR_STATUS: Final = gauge(
    "kafka_connect_connector_status", "1 for the state that a connector is in.",
    labels=("connector", "status"),
)  # fmt: skip
TASK_STATUS: Final = gauge(
    "kafka_connect_connector_task_status",
    "1 for the state that a task is in.",
    labels=(*_TASK, "status"),
)
CONNECTORS: Final = gauge(
    "kafka_connect_worker_connector_count", "Connectors that this worker plans; it leads if any."
)
TASKS: Final = gauge("kafka_connect_worker_task_count", "Tasks that this worker runs.")
ASSIGNED_CONNECTORS: Final = gauge(
    "kafka_connect_coordinator_assigned_connectors", "Connectors that this worker plans."
)
ASSIGNED_TASKS: Final = gauge(
    "kafka_connect_coordinator_assigned_tasks", "Tasks that are this worker's share."
)
REBALANCING: Final = gauge(
    "kafka_connect_worker_rebalance_rebalancing", "Whether the group shares out at the moment."
)
REBALANCES: Final = counter(
    "kafka_connect_worker_rebalance_completed_rebalances_total",
    "How often the group has shared out since this worker started.",
)
OF_STATE: Final = {
    State.RUNNING: "running",
    State.PAUSED: "paused",
    State.FAILED: "failed",
    State.UNASSIGNED: "unassigned",
    State.DESTROYED: "destroyed",
    State.RESTARTING: "restarting",
}
COUNTS: Final = {
    state: gauge(
        f"kafka_connect_worker_connector_{name}_task_count", f"Tasks of a connector: {name}.",
        labels=("connector",),
    )
    for state, name in OF_STATE.items()
}  # fmt: skip
ERRORS: Final = gauge(
    "kafka_connect_task_error_total_record_failures",
    "Records that failed, by the name of Strimzi's dashboard.",
    labels=_TASK,
)
SKIPPED: Final = gauge(
    "kafka_connect_task_error_total_records_skipped", "Records that were skipped.", labels=_TASK
)
LETTERS: Final = gauge(
    "kafka_connect_task_error_deadletterqueue_produce_requests",
    "Records that went to the dead-letter topic.", labels=_TASK,
)  # fmt: skip
POLLED: Final = counter(
    "kafka_connect_source_task_source_record_poll_total", "Records that a source has read.",
    labels=_TASK,
)  # fmt: skip
WRITTEN: Final = counter(
    "kafka_connect_source_task_source_record_write_total",
    "Records that a source has written to topics.", labels=_TASK,
)  # fmt: skip
READ: Final = counter(
    "kafka_connect_sink_task_sink_record_read_total", "Records that a sink was given.",
    labels=_TASK,
)  # fmt: skip
SENT: Final = counter(
    "kafka_connect_sink_task_sink_record_send_total", "Records that a sink has written.",
    labels=_TASK,
)  # fmt: skip


class ConnectMetrics(ServiceMetrics):
    def __init__(self, service: "ConnectService") -> None:
        super().__init__(service.title, service.pool)
        self._worker = service.worker
        self._engine = service.engine
        self._surface = service.surface

    def collect(self) -> Collected:
        collected = super().collect()
        self._add_states(collected)
        self._add_tasks(collected)
        return collected

    def _add_states(self, collected: Collected) -> None:
        worker, shares = self._worker, self._worker.shares
        names = list(worker.configs.connectors) if worker.is_leading else []
        mine = () if shares is None else shares.tasks.get(worker.url, ())
        collected.add(CONNECTORS, len(names))
        collected.add(ASSIGNED_CONNECTORS, len(names))
        collected.add(TASKS, worker.running_tasks())
        collected.add(ASSIGNED_TASKS, len(mine))
        collected.add(REBALANCING, int(shares is None))
        collected.add(REBALANCES, worker.rebalances)
        for name in names:
            state = worker.status_of_connector(name).state.value.lower()
            collected.add(CONNECTOR_STATUS, 1, name, state)
            tasks = [task for task in worker.all_tasks() if task.connector == name]
            states = [worker.status_of_task(task).state for task in tasks]
            for state_, metric in COUNTS.items():
                collected.add(metric, states.count(state_), name)

    def _add_tasks(self, collected: Collected) -> None:
        worker = self._worker
        mine = () if worker.shares is None else worker.shares.tasks.get(worker.url, ())
        for task in mine:
            state = worker.status_of_task(task).state.value.lower()
            collected.add(TASK_STATUS, 1, task.connector, str(task.number), state)
        made = self._engine.made
        figures = {} if made is None else made.figures()
        for task, (counted, failed) in figures.items():
            labels = task.connector, str(task.number)
            of_source = self._is_source(task)
            collected.add(POLLED if of_source else READ, counted.polled, *labels)
            collected.add(WRITTEN if of_source else SENT, counted.written, *labels)
            if failed is not None:
                collected.add(ERRORS, failed.failed, *labels)
                collected.add(SKIPPED, failed.passed_over, *labels)
                collected.add(LETTERS, failed.diverted, *labels)

    def _is_source(self, task: TaskId) -> bool:
        if task.connector not in self._worker.configs.connectors:
            return True
        return self._surface.kind_of(task.connector) == "source"
