"""What a worker gives to its engine, and the connector of a task's properties."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.connect import plugins
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.offset_store import OffsetStore
from odradek.connect.engine.plan_check import NoPlanCheck, PlanCheck


@dataclass(frozen=True, slots=True)
class EngineContext:
    """`worker` are the properties of the worker's file; connectors use its converters unless they
    name their own. `group_id` is a part of the transactional ids of sources, as in Kafka Connect.
    `hang_timeout_s` is how long a call of a task may take before the task counts as hanging."""

    worker: Mapping[str, str]
    clients: ConnectorClients
    offsets: OffsetStore
    group_id: str
    hang_timeout_s: float = 60.0
    creates_topics: bool = True
    stop_timeout_s: float = 5.0
    """How long a task may take to end before it is left alone."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, for the engine that uses it."""
    plans: PlanCheck = field(default_factory=NoPlanCheck)
    """Says whether a task is still wanted when it is about to write."""


def connector_of(properties: Mapping[str, str]) -> Any:
    """Returns the connector object of these properties. It may import modules, so call it where
    that may take time. Raises `InvalidConfig`."""
    plugin = plugins.find_connector(properties.get("connector.class", ""))
    return plugin.load()(plugin.settings_class.read(properties))


def is_source(properties: Mapping[str, str]) -> bool:
    """Raises `InvalidConfig` if there is no such class."""
    return plugins.find_connector(properties.get("connector.class", "")).name in plugins.SOURCES
