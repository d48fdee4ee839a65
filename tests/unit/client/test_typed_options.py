"""mypy refuses misspelt options and methods, and what is generated from the settings is current."""

import re
import subprocess
import sys
import typing
from dataclasses import fields
from pathlib import Path

import pytest

from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings, reference
from odradek.client.settings import options as generated

ROOT = Path(__file__).parents[3]

# Each line must be refused, for the reason beside it; the other lines must pass.
PROGRAM = """
from odradek.client import Admin, Consumer, Producer, sync

async def right() -> None:
    async with Producer(bootstrap_servers="h:1", acks="all", linger_ms=5) as producer:
        await producer.send("t", b"v", headers={"a": b"b"})
    Consumer("t", group_id="g", isolation_level="read_committed")
    Producer({"linger.ms": 5})
    Producer(value_serializer="json", partitioner_class=lambda record: record.all_partitions[0])
    Consumer(value_deserializer=lambda data, context: (context.topic, data))

from odradek.client import Producr          # Module "odradek.client" has no attribute "Producr"
from odradek.client.sync import Consmer     # has no attribute "Consmer"
Producer(lingerms=5)                        # Unexpected keyword argument "lingerms"
Producer(acks="maybe")                      # incompatible type "Literal['maybe']"
Producer(compression_type="zip")            # incompatible type "Literal['zip']"
Consumer(max_pol_records=5)                 # Unexpected keyword argument "max_pol_records"
Consumer(isolation_level="committed")       # incompatible type "Literal['committed']"
Admin(retris=1)                             # Unexpected keyword argument "retris"
sync.Producer(lingerms=5)                   # Unexpected keyword argument "lingerms"
sync.Producer().sned("t", b"v")             # "Producer" has no attribute "sned"
Producer().sned("t", b"v")                  # "Producer" has no attribute "sned"
sync.Consumer().poll(timeout=1.0)           # Unexpected keyword argument "timeout"
sync.Admin().create_topcs([])               # "Admin" has no attribute "create_topcs"
"""


def test_mypy_refuses_what_is_misspelt(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
            program,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = dict(re.findall(r"program\.py:(\d+): error: (.*)", done.stdout))
    expected = {
        str(number): line.partition("  # ")[2]
        for number, line in enumerate(PROGRAM.splitlines(), start=1)
        if "  # " in line
    }
    assert errors.keys() == expected.keys(), done.stdout
    for number, message in expected.items():
        assert message in errors[number]


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (generated.ProducerOptions, ProducerSettings),
        (generated.ConsumerOptions, ConsumerSettings),
        (generated.AdminOptions, AdminSettings),
    ],
)
def test_options_and_settings_are_the_same(
    options: type, settings: type[ProducerSettings] | type[ConsumerSettings] | type[AdminSettings]
) -> None:
    assert typing.get_type_hints(options) == {
        item.name: item.type for item in fields(settings) if item.metadata
    }


def test_what_is_generated_is_current() -> None:
    path = ROOT / "src" / "odradek" / "client" / "settings" / "options.py"
    assert path.read_text() == reference.options()
    assert (ROOT / "docs" / "reference" / "client-settings.md").read_text() == reference.page()


def test_the_page_has_every_setting() -> None:
    page = reference.page()
    for settings in (ProducerSettings, ConsumerSettings, AdminSettings):
        for name in settings.declared():
            assert f"| `{name}` |" in page
