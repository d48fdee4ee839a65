"""What is done to several topics at once: they are chosen in the list, a page says what will happen
to each, and it happens when the number of topics was typed."""

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from odradek.client.admin.admin import Admin
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.web.endpoints import Endpoint
from odradek.wording import counted

_MAX_TOPICS: Final = 500


@dataclass(frozen=True, slots=True)
class Action:
    """An action: how the button is called, what happens, and how it is told afterwards."""

    verb: str
    what: str
    done: str


ACTIONS: Final = {
    "delete": Action(
        "Delete", "These topics go with all of their records, on all brokers.", "deleted"
    ),
    "purge": Action(
        "Delete the records of",
        "Every partition of these topics begins at its end afterwards. The topics and their"
        " settings stay.",
        "emptied",
    ),
}


class ManyTopicsPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.changes("/selected-topics", self._chosen, "What is done to several topics."),
        ]

    async def _chosen(self, asked: PageRequest) -> Response:
        form = asked.form
        names = sorted(set(form.many("topic")))
        if not names:
            raise BadForm("Choose topics in the list first")
        if len(names) > _MAX_TOPICS:
            raise BadForm(f"{counted(_MAX_TOPICS, 'topic')} at most at once")
        if form.text("action") == "clone":
            if len(names) > 1:
                raise BadForm("Choose one topic to clone")
            return asked.go(f"{asked.url('topics', names[0], 'manage')}#clone")
        action = ACTIONS.get(form.text("action"))
        if action is None:
            raise BadForm(f"an action is one of {', '.join(ACTIONS)} and clone")
        known = await asked.admin.list_topics(include_internal=True)
        names = [name for name in names if name in known]
        if not form.has("confirm"):
            return self._page(asked, names, action)
        if form.text("confirm") != str(len(names)):
            problem = f"Nothing was done: type {len(names)} into the field to confirm it"
            return self._page(asked, names, action, problem)
        failed = []
        for name in names:
            try:
                await _carry_out(asked.admin, form.text("action"), known[name])
            except (KafkaError, ClientError) as error:
                failed.append(f"{name}: {error}")
        asked.changed()
        done = counted(len(names) - len(failed), "topic was", "topics were", spec=",")
        if failed:
            return self._page(asked, names, action, f"{done} {action.done}. {'; '.join(failed)}")
        return asked.go(asked.url("topics"), "good", f"{done} {action.done}.")

    def _page(
        self, asked: PageRequest, names: list[str], action: Action, problem: str = ""
    ) -> Response:
        return asked.page(
            "many_topics.html", "topics", 400 if problem else 200, names=names, action=action,
            action_name=asked.form.text("action"), problem=problem,
        )  # fmt: skip


async def _carry_out(admin: Admin, action: str, topic: Topic) -> None:
    """Raises what the brokers refuse."""
    if action == "delete":
        await admin.delete_topic(topic.name)
        return
    answers = await admin.delete_records(
        {TopicPartition(topic.name, index): -1 for index in topic.partitions}
    )
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer
