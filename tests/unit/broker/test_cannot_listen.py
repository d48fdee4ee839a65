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


def test_an_address_of_another_machine_is_answered_with_what_can_be_named() -> None:
    error = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
    said = _explain(Listener("PLAINTEXT", "10.99.99.99", 9092), error)
    assert said.startswith("this machine has no address 10.99.99.99: listeners (--host of")
    assert "0.0.0.0 for all of them" in said
