"""Whether any broker can be reached, asked once at the beginning of a query or a command.

A client goes on trying for a minute, because brokers restart. But at the beginning a refused
connection usually means a wrong address, or that no broker was started, and a person waits. So the
first contact is one attempt for each address. The same holds for an address where something else
listens, HTTP for example, or a listener of another kind than `security.protocol` says. A stream
that runs already waits for its brokers.
"""

import dataclasses
import socket
from typing import Final

from odradek.client.errors import NoBrokerAvailable, RequestTimedOut
from odradek.client.settings import AdminSettings
from odradek.spark import clients

_TIMEOUT_S: Final = 5.0
_ANSWER_MS: Final = 3000
_PROTOCOL: Final = "security.protocol"
# For queries. A command has flags for this, and says so by itself.
ADVICE: Final = (
    "; start a broker with `odradek up`, or set kafka.bootstrap.servers to the address of another"
)


def require_reachable(settings: AdminSettings) -> None:
    """Raises `NoBrokerAvailable` if every address refuses connections, does not exist, or is that
    of another program. An address that does not answer in time counts as reachable: the client
    waits longer for it."""
    reasons = []
    for host, port in settings.bootstrap_addresses:
        try:
            socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
        except TimeoutError:
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
        else:
            _require_broker(settings)
            return
    raise NoBrokerAvailable(f"cannot connect to {', '.join(reasons)}{ADVICE}")


def _require_broker(settings: AdminSettings) -> None:
    """Asks one question, which is not repeated for long."""
    admin = clients.admin(
        dataclasses.replace(settings, retries=1, default_api_timeout_ms=_ANSWER_MS)
    )
    try:
        admin.describe_cluster()
    except RequestTimedOut:
        return
    except NoBrokerAvailable as error:
        raise _in_words_of_queries(error) from None


def _in_words_of_queries(error: NoBrokerAvailable) -> NoBrokerAvailable:
    said, option = str(error), f"kafka.{_PROTOCOL}"
    # If somebody answers there, the words say what to set.
    said = said.replace(_PROTOCOL, option) if _PROTOCOL in said else f"{said}{ADVICE}"
    named = NoBrokerAvailable(said)
    named.reasons = error.reasons
    return named


def in_words_of_commands(error: NoBrokerAvailable) -> NoBrokerAvailable:
    """Returns the error without the advice for queries: a command names its own flags."""
    named = NoBrokerAvailable(
        str(error).removesuffix(ADVICE).replace(f"kafka.{_PROTOCOL}", _PROTOCOL)
    )
    named.reasons = error.reasons
    return named


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no host of this name"
    return (error.strerror or str(error)).lower()
