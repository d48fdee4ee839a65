"""The brokers of a cluster, and the settings of each."""

from starlette.responses import Response

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.pages.overview import broker_row
from odradek.console.pages.topic import change_setting, matching, setting_entries
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import BrokerId
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem


class BrokerPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/brokers", self._list, "All brokers."),
            self.shows("/brokers/{broker:int}", self._broker, "A broker and its disks."),
            self.shows("/brokers/{broker:int}/settings", self._settings, "Settings of a broker."),
            self.changes("/brokers/{broker:int}/settings", self._change, "Changes a setting."),
        ]

    async def _list(self, asked: PageRequest) -> Response:
        watcher = asked.watcher
        figures = await watcher.first()
        rows = [broker_row(broker) for broker in figures.brokers] if figures is not None else []
        return asked.page(
            "brokers.html", "brokers", brokers=rows, problem=watcher.problem,
            cluster_id=figures.cluster_id if figures is not None else "",
        )  # fmt: skip

    async def _broker(self, asked: PageRequest) -> Response:
        broker = int(asked.path["broker"])
        row = await _row(asked, broker)
        directories, problem = [], ""
        if row["state"] == "gone":
            problem = f"Broker {broker} is gone. Start it again; its replicas then catch up."
        else:
            try:
                answer = await asked.admin.describe_log_dirs([broker])
                directories = answer[BrokerId(broker)]
            except (KafkaError, ClientError) as error:
                problem = f"The log directories cannot be read: {error}"
        return asked.page(
            "broker.html", "brokers", broker=broker, row=row, tab="disks",
            directories=directories, problem=problem,
        )  # fmt: skip

    async def _settings(self, asked: PageRequest, problem: str = "") -> Response:
        broker = int(asked.path["broker"])
        row = await _row(asked, broker)
        entries = []
        if row["state"] == "gone":
            problem = f"Broker {broker} is gone, so nobody can tell its settings. Start it again."
        else:
            resource = ConfigResource(ConfigType.BROKER, str(broker))
            entries = await setting_entries(asked, resource)
        text = asked.query.text("q")
        shown = matching(entries, text)
        return asked.page(
            "broker.html", "brokers", 400 if problem and entries else 200, broker=broker, row=row,
            tab="settings", entries=shown, text=text, problem=problem,
            action=asked.url("brokers", broker, "settings"),
        )  # fmt: skip

    async def _change(self, asked: PageRequest) -> Response:
        broker = int(asked.path["broker"])
        try:
            words = await change_setting(asked, ConfigResource(ConfigType.BROKER, str(broker)))
        except BadForm as error:
            return await self._settings(asked, str(error))
        return asked.go(asked.url("brokers", broker, "settings"), "good", words)


async def _row(asked: PageRequest, broker: int) -> dict[str, object]:
    figures = await asked.watcher.first()
    for one in figures.brokers if figures is not None else ():
        if one.id == broker:
            return broker_row(one)
    raise Problem(404, f"there is no broker {broker} in this cluster")
