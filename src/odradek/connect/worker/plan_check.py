"""The plans of connectors in the config topic, for tasks that make sure that they are in them.

In the worker's own process the store of configurations has them. In the process of a task, and in
those of Spark, a reader of the topic begins when the task does.
"""

from collections.abc import Mapping

from odradek.connect.engine.compacted_topic import CompactedTopic
from odradek.connect.engine.engine import TaskSpec
from odradek.connect.engine.plan_check import NoPlanCheck, PlanCheck, compare
from odradek.connect.worker.config_state import ConfigState
from odradek.connect.worker.config_store import ConfigStore, TopicConfigs


class PlansOfTopic(PlanCheck):
    def __init__(
        self, properties: Mapping[str, object], state: ConfigState, topic: CompactedTopic
    ) -> None:
        self._properties = dict(properties)
        self._state = state
        self._topic = topic

    @classmethod
    def read_from(cls, properties: Mapping[str, object], topic: str) -> "PlansOfTopic":
        """Returns plans that are known when `run` reads the topic."""
        state = ConfigState()
        return cls(properties, state, CompactedTopic(properties, topic, state.apply))

    def __reduce__(self) -> tuple[object, ...]:
        """In another process it reads the same topic."""
        return PlansOfTopic.read_from, (self._properties, self._topic.name)

    async def run(self) -> None:
        await self._topic.run()

    async def check(self, task: TaskSpec) -> None:
        await self._topic.read_to_end()
        compare(task, self._state.tasks.get(task.id.connector, ()))


def plan_check_of(store: ConfigStore, properties: Mapping[str, object]) -> PlanCheck:
    """Returns the check for tasks of a worker with this store. `properties` are its clients'."""
    if isinstance(store, TopicConfigs):
        return PlansOfTopic(properties, store.state, store.topic)
    return NoPlanCheck()
