"""What docs/client.md shows runs as it stands, against Apache Kafka and against our broker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.conformance.topics import create_topic

GUIDE = Path(__file__).parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
TITLES = re.findall(r"^## (.*?)$(?=[^#]*?```python)", GUIDE.read_text(), re.MULTILINE)


def test_the_guide_has_examples() -> None:
    assert len(EXAMPLES) == len(TITLES) >= 6


@pytest.mark.parametrize("example", EXAMPLES, ids=TITLES)
def test_an_example_of_the_guide(any_broker: BrokerProcess, example: str) -> None:
    topic = create_topic(any_broker)
    host, port = any_broker.bootstrap.rsplit(":", 1)
    preparation = (
        "from odradek.client.sync import Producer\n"
        f"with Producer(bootstrap_servers='{any_broker.bootstrap}') as producer:\n"
        f"    [producer.send('{topic}', b'%d' % one) for one in range(10)]\n"
    )
    example = (
        example.replace("localhost:9092", any_broker.bootstrap)
        .replace('"localhost", 9092', f'"{host}", {port}')
        .replace('"clicks"', f'"{topic}"')
        .replace('"orders"', f'"{create_topic(any_broker)}"')
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", preparation + example],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
