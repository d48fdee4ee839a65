"""The connectors of objects: Confluent's S3 sink (for directories too), and Aiven's."""

from typing import Any, ClassVar

from odradek.connect.connectors.connector import SinkConnector
from odradek.connect.connectors.object_sink.aiven import AivenSettings
from odradek.connect.connectors.object_sink.confluent import ConfluentSettings
from odradek.connect.connectors.object_sink.settings import StoreSettings
from odradek.connect.connectors.object_sink.task import ObjectSinkTask
from odradek.connect.errors import DataError, InvalidConfig, Unavailable


class ObjectSink(SinkConnector):
    """io.confluent.connect.s3.S3SinkConnector; with store.url=file:/DIRECTORY, into a directory."""

    settings_class: ClassVar[Any] = ConfluentSettings

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings

    def task(self) -> ObjectSinkTask:
        plan = self._settings.plan()
        store = self._settings.store()
        return ObjectSinkTask(store, plan.layout, plan.format, plan.rotation, plan.shape)

    def wrong_outside(self) -> dict[str, list[str]]:
        try:
            self._settings.store().try_out()
        except (InvalidConfig, DataError, Unavailable) as error:
            is_aiven = isinstance(self._settings, AivenSettings)
            return {"aws.s3.bucket.name" if is_aiven else "store.url": [str(error)]}
        return {}


class AivenObjectSink(ObjectSink):
    """io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector."""

    settings_class: ClassVar[Any] = AivenSettings
