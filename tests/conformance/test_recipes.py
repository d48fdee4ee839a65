"""What the recipes show runs as it stands, against Apache Kafka and against our broker."""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from tests.conformance.topics import new_topic_name

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"


def test_retries(any_broker: BrokerProcess) -> None:
    text = (RECIPES / "retries.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (printed,) = re.findall(r"It prints\n\n```\n(.*?)```", text, re.DOTALL)
    topic = new_topic_name()
    example = example.replace("localhost:9092", any_broker.bootstrap).replace(
        '"parcels', f'"{topic}'
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(printed.splitlines())
