import socket

import pytest

from odradek.local.management_ports import management_listeners, with_jmx_port
from odradek.tools.failures import CommandFailed


def port_of(listener: str) -> int:
    host, _, port = listener.removeprefix("http://").partition(":")
    assert host == "127.0.0.1"
    return int(port)


def test_a_hundred_above_the_brokers() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    assert port_of(management_listeners([free - 100], {})[0]) == free
    # Ports that the system chooses, and ports beyond the last one, are any free ones.
    first, second = map(port_of, management_listeners([0, 65_500], {}))
    assert 0 < first != second > 0


def test_a_port_in_use_is_replaced() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        assert port_of(management_listeners([port - 100], {})[0]) != port


def test_jmx_port_is_the_first() -> None:
    environment = {"JMX_PORT": "9999"}
    assert management_listeners([9092, 9093], environment) == [
        "http://127.0.0.1:9999",
        "http://127.0.0.1:10000",
    ]
    assert with_jmx_port({"a": "b"}, environment) == {
        "a": "b",
        "management.listener": "http://127.0.0.1:9999",
    }
    # What the file says counts, and without the variable nothing is added.
    settings = {"management.listener": "http://10.0.0.1:1"}
    assert with_jmx_port(settings, environment) == settings
    assert with_jmx_port({}, {}) == {}
    with pytest.raises(CommandFailed, match="JMX_PORT=many is not a port"):
        with_jmx_port({}, {"JMX_PORT": "many"})
