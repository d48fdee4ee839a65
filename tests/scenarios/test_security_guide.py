"""What docs/security.md shows is what happens."""

import re
import shlex
from pathlib import Path

from odradek.config import BrokerSettings
from odradek.protocol.acls import Operation, ResourceType
from odradek.security.authorizer import Authorizer
from odradek.security.principals import ANONYMOUS
from odradek.testing import Cluster
from tests.scenarios.test_cli import Shell

GUIDE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_the_session_at_the_command_line() -> None:
    (session,) = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    (overrides,) = re.findall(r"`odradek up (.*?)`", GUIDE)
    settings = dict(word.split("=") for word in shlex.split(overrides) if "=" in word)
    with Cluster(settings=settings) as cluster:
        odradek = Shell(cluster.bootstrap)
        for step in session.split("$ odradek ")[1:]:
            command, _, expected = step.partition("\n")
            done = odradek(*shlex.split(command))
            assert done.stdout + done.stderr == expected, command


def test_the_authorizer_of_ones_own() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, type[Authorizer]] = {}
    exec(example, names)
    mine = names["OfficeHours"](BrokerSettings())
    write = (Operation.WRITE, ResourceType.TOPIC, "t")
    assert mine.allows(ANONYMOUS, "127.0.0.1", *write)
    assert not mine.allows(ANONYMOUS, "10.0.0.1", *write)
