import pytest

from odradek.config import BrokerSettings, InvalidSetting, Listener, parse_listener
from odradek.config.broker_settings import BROKER_DECLARED


def settings(**properties: str) -> BrokerSettings:
    return BrokerSettings.from_properties(
        {name.replace("_", "."): text for name, text in properties.items()}
    )


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
        ("PLAINTEXT://0.0.0.0:0", Listener("PLAINTEXT", "0.0.0.0", 0)),
        ("PLAINTEXT://[::1]:9092", Listener("PLAINTEXT", "::1", 9092)),
        ("INSIDE_2://kafka.example.org:65535", Listener("INSIDE_2", "kafka.example.org", 65535)),
    ],
)
def test_a_listener_reads_as_it_is_written(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener
    assert str(listener) == text


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"listeners": "localhost:9092"}, "write it as PLAINTEXT://host:9092"),
        ({"listeners": "PLAINTEXT://localhost"}, "write it as PLAINTEXT://host:9092"),
        ({"listeners": "PLAINTEXT://localhost:http"}, "write it as PLAINTEXT://host:9092"),
        ({"listeners": "PLAINTEXT://localhost:65536"}, "more than 65535"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "needs brackets"),
        ({"listeners": ""}, "at least one listener"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "a name of its own"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "a port of its own"),
        ({"listeners": "PLAINTXT://:1"}, "did you mean PLAINTEXT?"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTXT"},
            "did you mean PLAINTEXT?",
        ),
        ({"advertised.listeners": "PLAINTXT://host:9092"}, "did you mean PLAINTEXT?"),
        ({"listeners": "INSIDE://:1"}, "add the name to listener.security.protocol.map"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect"),
        ({"advertised.listeners": "SSL://host:9092"}, "listeners has no SSL"),
        ({"inter.broker.listener.name": "SSL"}, "listeners has only PLAINTEXT"),
        ({"listener.security.protocol.map": "A:TLS"}, "is not NAME:PROTOCOL"),
        ({"max.connections.per.ip.overrides": "10"}, "is not address:limit"),
    ],
)
def test_what_cannot_work_is_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        BrokerSettings.from_properties(properties)


def test_names_map_to_protocols() -> None:
    chosen = settings(
        listeners="INSIDE://:1,OUTSIDE://:2",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
        inter_broker_listener_name="INSIDE",
        advertised_listeners="INSIDE://a:1,OUTSIDE://b:2",
    )
    assert chosen.security_protocol("OUTSIDE") == "SASL_SSL"
    assert chosen.effective_inter_broker_listener_name == "INSIDE"
    assert chosen.effective_advertised_listeners[1] == Listener("OUTSIDE", "b", 2)


def test_advertised_listeners_default_to_listeners() -> None:
    chosen = settings(listeners="PLAINTEXT://localhost:1")
    assert chosen.effective_advertised_listeners == chosen.listeners
    assert chosen.effective_inter_broker_listener_name == "PLAINTEXT"


def test_limits_by_address() -> None:
    chosen = settings(max_connections_per_ip_overrides="127.0.0.1:5,[::1]:6")
    assert chosen.max_connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 6}


def test_the_management_listener() -> None:
    read = BrokerSettings.from_properties
    assert read({}).management_listener is None
    assert read({"management.listener": " "}).management_listener is None
    found = read({"management.listener": "http://127.0.0.1:9192/"}).management_listener
    assert str(found) == "http://127.0.0.1:9192"
    # As it is told to `odradek top`, and to those who describe the settings of a broker.
    setting = BROKER_DECLARED["management.listener"]
    assert setting.text(found) == "http://127.0.0.1:9192"
    for text, reason in (
        ("https://127.0.0.1:9192", "the management port speaks http"),
        ("127.0.0.1", "write it as http://127.0.0.1:9192"),
    ):
        with pytest.raises(InvalidSetting, match=reason):
            read({"management.listener": text})
