"""What is said about an address that cannot be had."""

import errno

import pytest

from odradek.broker.network.listeners import _explain
from odradek.config import Listener


@pytest.mark.parametrize(
    ("port", "said"),
    [
        (80, "no permission to listen on *:80: ports below 1024 are for root; choose another one"),
        (8080, "no permission to listen on *:8080; choose another port"),
    ],
)
def test_a_port_that_is_not_allowed(port: int, said: str) -> None:
    error = PermissionError(errno.EACCES, "Permission denied")
    assert _explain(Listener("PLAINTEXT", "", port), error).startswith(said)
