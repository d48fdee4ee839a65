"""Whether any broker can be reached, asked once at the beginning of a query or a command.

A client goes on trying for a minute, because brokers restart. But at the beginning a refused
connection usually means a wrong address, or that no broker was started, and a person waits. So the
first contact is one attempt for each address. A stream that runs already waits for its brokers.
"""

import socket
from typing import Final

from odradek.client.errors import NoBrokerAvailable
from odradek.client.settings import ClientSettings

_TIMEOUT_S: Final = 5.0
# For queries. A command has flags for this, and says so by itself.
ADVICE: Final = (
    "; start a broker with `odradek up`, or set kafka.bootstrap.servers to the address of another"
)


def require_reachable(settings: ClientSettings) -> None:
    """Raises `NoBrokerAvailable` if every address refuses connections or does not exist. An address
    that does not answer in time counts as reachable: the client waits longer for it."""
    reasons = []
    for host, port in settings.bootstrap_addresses:
        try:
            socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
        except TimeoutError:
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
        else:
            return
    raise NoBrokerAvailable(f"cannot connect to {', '.join(reasons)}{ADVICE}")


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no host of this name"
    return (error.strerror or str(error)).lower()
