"""`odradek connect new NAME`: writes a package with a connector of one's own, and a test of it.

What is written works as it stands: its test passes, and after `pip install` a worker that allows
the package runs the connector.
"""

import keyword
import re
from pathlib import Path
from typing import Final

from odradek.tools.failures import CommandFailed, UsageError

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")

_PYPROJECT: Final = """\
[build-system]
requires = ["setuptools>=69"]
build-backend = "setuptools.build_meta"

[project]
name = "@name@"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["odradek"]

# A configuration says connector.class=@class@Source.
[project.entry-points.odradek_connectors]
"@class@Source" = "@name@.connector:@class@Source"

[tool.setuptools.packages.find]
where = ["src"]
"""

_CONNECTOR: Final = '''\
"""A source that counts: replace the counting by what you want to read.

A task has no position of its own. The engine asks how far it can read (`reach`), and then for the
records in between (`read`), and stores the end together with the records. So the same range must
give the same records again.
"""

from collections.abc import Iterator
from typing import ClassVar

from odradek.config.kinds import integer, string
from odradek.connect.connectors.connector import SourceConnector, SourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.data import schemas
from odradek.connect.records import SourceRecord
from odradek.connect.settings import REQUIRED, PluginSettings

_PARTITION = {"source": "@name@"}


class @class@Settings(PluginSettings):
    topic = string("topic", REQUIRED, "The topic to write to.", may_be_empty=False)
    last = integer("last", 100, "The last number.", at_least=1)


class @class@Source(SourceConnector):
    settings_class: ClassVar = @class@Settings

    def __init__(self, settings: @class@Settings) -> None:
        self._settings = settings

    def task(self) -> "@class@Task":
        return @class@Task(self._settings.topic, self._settings.last)


class @class@Task(SourceTask):
    def __init__(self, topic: str, last: int) -> None:
        self._topic = topic
        self._last = last

    def reach(self, start: Positions, max_records: int) -> Positions:
        number = min(_number(start) + max_records, self._last)
        return start.with_offset(_PARTITION, {"number": number}) if number else start

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        for number in range(_number(start) + 1, _number(end) + 1):
            yield SourceRecord(
                self._topic,
                value=f"number {number}",
                value_schema=schemas.STRING,
                source_partition=_PARTITION,
                source_offset={"number": number},
            )


def _number(positions: Positions) -> int:
    """Returns the last number that was read; 0 at the beginning."""
    offset = positions.of(_PARTITION)
    return 0 if offset is None else int(offset["number"])
'''

_TEST: Final = '''\
"""The connector without a worker and without brokers: tasks are plain objects."""

from odradek.connect.connectors.positions import Positions

from @name@.connector import @class@Settings, @class@Source


def test_it_reads_on_where_it_was() -> None:
    settings = @class@Settings.read({"topic": "numbers", "last": "5"})
    task = @class@Source(settings).task()
    middle = task.reach(Positions(), 3)
    end = task.reach(middle, 3)
    assert [record.value for record in task.read(middle, end)] == ["number 4", "number 5"]
    assert task.reach(end, 3) == end  # There is nothing new.
'''

_PROPERTIES: Final = """\
name=@name@
connector.class=@class@Source
tasks.max=1
topic=@name@
"""

_README: Final = """\
# @name@

A connector for Odradek Connect.

    pip install -e . pytest
    pytest                                    # its test, without a worker
    odradek connect-standalone connect-standalone.properties @name@.properties \\
        --override odradek.plugins=@name@

`odradek.plugins` in the worker's file names the packages whose connectors may be used.
"""

_FILES: Final = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "@name@.properties": _PROPERTIES,
    "src/@name@/__init__.py": "",
    "src/@name@/connector.py": _CONNECTOR,
    "tests/test_connector.py": _TEST,
}


def write_template(name: str) -> int:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be the name of a package: use lower-case letters, digits and _"
        )
    root = Path(name)
    if root.exists():
        raise CommandFailed(f"{name} is there already; choose another name, or remove it")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    for path, text in _FILES.items():
        file = root / path.replace("@name@", name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("@name@", name).replace("@class@", class_name))
        except OSError as error:
            raise CommandFailed(f"{file} cannot be written: {error.strerror}") from None
    print(f"wrote {name}/: begin with {name}/src/{name}/connector.py and its test")
    return 0
