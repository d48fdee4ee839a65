"""Is the broker well, is it ready, and if not, why: in words for people, in codes for probes.

Alive means that the event loop answers. Ready means that the broker may be relied on, so that a
rolling restart goes on to the next one: its logs are recovered, it is registered with the metadata
store, and all its replicas are in sync.
"""

from enum import Enum
from typing import TYPE_CHECKING

from odradek import __version__
from odradek.storage.file_names import parse_partition_directory
from odradek.wording import counted
from odradek.world import World

if TYPE_CHECKING:
    from odradek.broker.components import Components
    from odradek.storage.manager import LogManager

_MAX_NAMED = 5


class State(Enum):
    STARTING = "starting: it opens the metadata store"
    LOADING = "loading its logs"
    JOINING = "joining the cluster"
    RUNNING = "running"
    STOPPING = "stopping"


class Health:
    """The broker tells it what it is doing; `/healthz`, `/readyz` and `/status` ask it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since_s = world.clock.monotonic_s()
        self.state = State.STARTING
        self._logs: LogManager | None = None
        self._totals: dict[str, int] = {}
        self._components: Components | None = None

    # What the broker tells

    def loading(self, logs: "LogManager") -> None:
        """Called before the logs are loaded. Counts them, so that `/status` can tell how far it
        is."""
        self.state, self._logs = State.LOADING, logs
        for directory in logs.directories:
            try:
                names = self._world.disk.list_directory(directory.path)
            except OSError:
                names = []  # It does not exist yet, or cannot be read, which loading reports.
            found = sum(parse_partition_directory(name) is not None for name in names)
            self._totals[directory.path] = found

    def joining(self) -> None:
        self.state = State.JOINING

    def running(self, components: "Components") -> None:
        self.state, self._components = State.RUNNING, components

    def stopping(self) -> None:
        self.state = State.STOPPING

    # What is asked

    def reasons(self) -> list[str]:
        """Returns why the broker is not ready, in words; nothing if it is ready."""
        components = self._components
        if self.state is not State.RUNNING or components is None:
            return [f"the broker is {self.state.value}{self._progress()}"]
        replicas = components.services.replicas
        reasons = []
        if not replicas.is_leased:
            reasons.append(
                "the broker is not registered: its session with the metadata store has expired, or"
                " the store does not answer"
            )
        behind = self._behind(components)
        if behind:
            names = ", ".join(behind[:_MAX_NAMED]) + (", ..." if len(behind) > _MAX_NAMED else "")
            reasons.append(
                f"{counted(len(behind), 'replica is', 'replicas are')} not in sync yet, of"
                f" {len(replicas)} on this broker: {names}"
            )
        return reasons

    def warnings(self) -> list[str]:
        """Returns what an operator should look at although the broker is ready."""
        components = self._components
        if components is None:
            return []
        logs = components.services.logs
        failed = [f"log directory {one.path} failed" for one in logs.offline_directories]
        return failed + [f"log directory {one.path} is full" for one in logs.full_directories]

    def status(self) -> dict[str, object]:
        """Returns what `/status` shows."""
        reasons = self.reasons()
        status: dict[str, object] = {
            "version": __version__,
            "state": self.state.name.lower(),
            "ready": not reasons,
            "reasons": reasons,
            "warnings": self.warnings(),
            "uptime_seconds": round(self._world.clock.monotonic_s() - self._since_s, 3),
        }
        if self._logs is not None:
            status["log_directories"] = [
                {
                    "path": path,
                    "logs": max(self._totals.get(path, 0), loaded),
                    "loaded": loaded,
                }
                for path, loaded in self._loaded(self._logs).items()
            ]
        components = self._components
        if components is not None:
            services = components.services
            image = services.images.cache.image
            status |= {
                "broker_id": services.broker_id,
                "broker_epoch": components.membership.epoch,
                "cluster_id": image.cluster_id,
                "controller_id": image.controller_id,
                "is_controller": components.controller.is_active,
                "live_brokers": sorted(image.brokers),
                "replicas": len(services.replicas),
                "leaders": sum(one.is_leader for one in services.replicas.partitions()),
                "replicas_not_in_sync": len(self._behind(components)),
            }
        return status

    def _progress(self) -> str:
        if self.state is not State.LOADING or self._logs is None:
            return ""
        return f": {len(self._logs.logs)} of {sum(self._totals.values())} are loaded"

    def _loaded(self, logs: "LogManager") -> dict[str, int]:
        loaded = {directory.path: 0 for directory in logs.directories}
        for log in logs.logs.values():
            loaded[log.directory.path] += 1
        return loaded

    def _behind(self, components: "Components") -> list[str]:
        """Returns the replicas of this broker that are not in the ISR of a partition with a live
        leader. One that a reassignment adds has still to be copied, and does not count."""
        services = components.services
        image, broker_id = services.images.cache.image, services.broker_id
        behind = []
        for partition in services.replicas.partitions():
            state = image.partition(*partition.topic_partition)
            if (
                state is not None
                and broker_id in state.replicas
                and broker_id not in state.adding
                and broker_id not in state.isr
                and state.leader in image.brokers
            ):
                topic, index = partition.topic_partition
                behind.append(f"{topic}-{index}")
        return behind
