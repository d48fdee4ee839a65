"""Sources that do what no source should, each in its own way, as soon as a file tells them to."""

import ctypes
import os
import socket
import time
from collections.abc import Iterator
from typing import Any, ClassVar, cast

from odradek.config.kinds import string
from odradek.connect import plugins
from odradek.connect.connectors.connector import SourceConnector, SourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord
from odradek.connect.settings import REQUIRED, PluginSettings

_PARTITION = {"odd": "odd"}
_A_DAY_S = 86_400


class _Settings(PluginSettings):
    topic = string("topic", REQUIRED, "The topic.")
    go = string("go", REQUIRED, "The file that lets it do what it does; until then it is idle.")


class _Task(SourceTask):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def reach(self, start: Positions, max_records: int) -> Positions:
        return self.act(start, max_records) if os.path.exists(self._settings.go) else start

    def act(self, start: Positions, max_records: int) -> Positions:
        raise NotImplementedError

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        for number in range(_count(start), _count(end)):
            yield SourceRecord(self._settings.topic, value=f"{number:0100d}")


def _count(positions: Positions) -> int:
    found = positions.of(_PARTITION)
    return 0 if found is None else int(found["count"])


class _InC(_Task):
    """Hangs in C and keeps the interpreter's lock: no other thread of its process runs."""

    def act(self, start: Positions, max_records: int) -> Positions:
        ctypes.PyDLL(None).sleep(_A_DAY_S)
        return start


class _InSocket(_Task):
    """Waits for a server that accepts connections, and says nothing."""

    def act(self, start: Positions, max_records: int) -> Positions:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).recv(1)
        return start


class _InSleep(_Task):
    def act(self, start: Positions, max_records: int) -> Positions:
        time.sleep(_A_DAY_S)
        return start


class _Fails(_Task):
    def act(self, start: Positions, max_records: int) -> Positions:
        raise DataError("it fails, as it was told to")


class _Floods(_Task):
    """Has always as many new records as it may."""

    def act(self, start: Positions, max_records: int) -> Positions:
        return start.with_offset(_PARTITION, {"count": _count(start) + max_records})


_TASKS = {
    "HangsInC": _InC,
    "HangsInSocket": _InSocket,
    "HangsInSleep": _InSleep,
    "Fails": _Fails,
    "Floods": _Floods,
}


class OddSource(SourceConnector):
    settings_class: ClassVar = _Settings
    task_class: ClassVar[type[_Task]]

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def task(self) -> SourceTask:
        return self.task_class(self._settings)


for _name, _class in _TASKS.items():
    globals()[_name] = type(_name, (OddSource,), {"task_class": _class})


def install() -> None:
    """Makes them known in this process, and in those that get to know what is known here."""
    found = {f"tests.{name}": plugins.Plugin(f"tests.{name}", __name__, name) for name in _TASKS}
    for table in (plugins.SOURCES, plugins.CONNECTORS):
        cast("dict[str, plugins.Plugin]", table).update(found)
