"""Figures of the registry for Prometheus, beside those that all services have."""

from typing import TYPE_CHECKING, Final

from odradek.services.metrics import ServiceMetrics
from odradek.telemetry.declarations import Collected, counter, gauge

if TYPE_CHECKING:
    from odradek.registry.server import SchemaRegistryService

SUBJECTS: Final = gauge("odradek_registry_subjects", "Subjects, with those that are soft deleted.")
VERSIONS: Final = gauge(
    "odradek_registry_versions", "Versions of subjects, by whether they are deleted.",
    labels=("deleted",),
)  # fmt: skip
SCHEMAS: Final = gauge("odradek_registry_schemas", "Schemas, each with an id of its own.")
IS_PRIMARY: Final = gauge(
    "odradek_registry_is_primary", "Whether this instance carries out changes: 1 or 0."
)
INSTANCES: Final = gauge(
    "odradek_registry_instances", "Instances in the group, as its leader has counted them."
)
CHANGES: Final = counter(
    "odradek_registry_changes_total", "Changes that this instance has carried out."
)
FORWARDED: Final = counter(
    "odradek_registry_forwarded_total", "Changes that this instance has passed on."
)
PASSED_OVER: Final = counter(
    "odradek_registry_bad_records_total", "Records of the topic that were skipped."
)


class RegistryMetrics(ServiceMetrics):
    def __init__(self, service: "SchemaRegistryService") -> None:
        super().__init__(service.title, service.pool)
        self._registry = service

    def collect(self) -> Collected:
        collected = super().collect()
        service = self._registry
        counts = service.state.counts()
        collected.add(SUBJECTS, counts["subjects"])
        collected.add(VERSIONS, counts["versions"], "false")
        collected.add(VERSIONS, counts["deleted_versions"], "true")
        collected.add(SCHEMAS, counts["schemas"])
        collected.add(IS_PRIMARY, int(service.primary.is_writing))
        collected.add(INSTANCES, service.election.members if service.election else 0)
        collected.add(CHANGES, service.primary.commands)
        collected.add(FORWARDED, service.registry.forwarded)
        collected.add(PASSED_OVER, service.log.problems)
        return collected
