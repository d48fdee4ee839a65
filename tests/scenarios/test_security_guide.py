"""The authorizer that docs/security.md shows does what the page says. `tests/guides` runs the rest
of the page."""

import re
from pathlib import Path

from odradek.config import BrokerSettings
from odradek.protocol.acls import Operation, ResourceType
from odradek.security.authorizer import Authorizer
from odradek.security.principals import ANONYMOUS

GUIDE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_the_authorizer_of_ones_own() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, type[Authorizer]] = {}
    exec(example, names)
    mine = names["OfficeHours"](BrokerSettings())
    write = (Operation.WRITE, ResourceType.TOPIC, "t")
    assert mine.allows(ANONYMOUS, "127.0.0.1", *write)
    assert not mine.allows(ANONYMOUS, "10.0.0.1", *write)
