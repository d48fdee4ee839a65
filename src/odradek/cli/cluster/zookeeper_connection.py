"""How a tool talks to a ZooKeeper ensemble: by TLS, and logged in, as a broker does.

`--zk-tls-config-file` names a properties file; those of its settings count that are about the
connection to ZooKeeper, so the file of a broker may be given. A log-in is also found in the section
`Client` of the JAAS file that KAFKA_OPTS names.
"""

import argparse
from typing import TYPE_CHECKING, Final

from odradek.tools.failures import CommandFailed

if TYPE_CHECKING:
    from odradek.config import BrokerSettings
    from odradek.metadata.zookeeper_security import ZookeeperSecurity

_OURS: Final = ("zookeeper.ssl.", "zookeeper.clientCnxnSocket", "zookeeper.set.acl")
_LOG_IN: Final = "odradek.zookeeper."


def add_zookeeper_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--zk-tls-config-file",
        metavar="FILE",
        help="a file with zookeeper.ssl... and odradek.zookeeper.sasl.jaas.config, such as that"
        " of a broker: how to talk to the ensemble",
    )


def zookeeper_settings(path: str | None, address: str = "") -> "BrokerSettings":
    """Returns the settings of a file that are about ZooKeeper. Raises `InvalidSetting`."""
    from odradek.config import BrokerSettings
    from odradek.tools.client_properties import read_properties

    given = {} if path is None else read_properties(path)
    chosen = {name: text for name, text in given.items() if name.startswith((*_OURS, _LOG_IN))}
    if address:
        chosen |= {"odradek.metadata.store": "zookeeper", "zookeeper.connect": address}
    return BrokerSettings.from_properties(chosen)


def security_of(settings: "BrokerSettings") -> "ZookeeperSecurity":
    """Raises `CommandFailed` for what cannot work."""
    from odradek.config.setting import InvalidSetting
    from odradek.metadata.zookeeper_security import zookeeper_security
    from odradek.world import OsDisk, Randomness

    try:
        return zookeeper_security(settings, OsDisk(), Randomness())
    except InvalidSetting as error:
        raise CommandFailed(str(error)) from None
