"""Users that have logged in: ACLs, roles and groups decide about them, and the audit log names
them. PLAIN for users, OAUTHBEARER for the groups in the claims of a token."""

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.scenarios.test_cli import Shell

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class Secured:
    """A broker with a SASL listener for users, and one without for the operator."""

    def __init__(self, operator: Shell, sasl: str, audit: Path) -> None:
        self.operator = operator
        self.sasl = sasl
        self.audit = audit

    def config(self, user: str, password: str = "") -> dict[str, Any]:
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password or f"{user}-secret",
        }

    def token_config(self, user: str, *groups: str) -> dict[str, Any]:
        now_s = int(time.time())
        claims = {"sub": user, "iat": now_s, "exp": now_s + 600, "groups": list(groups)}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (f"{token}.", now_s + 600),
        }

    def events(self, **fields: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [
            event
            for event in found
            if all(event.get(name) == value for name, value in fields.items())
        ]


def send(config: dict[str, Any], topic: str) -> KafkaError | None:
    """Returns the error of a send, or None."""
    errors: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": 8000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors, "no report"
    return errors[0]


def log_in(config: dict[str, Any]) -> bool:
    """Returns whether the broker lets the user in."""
    consumer = Consumer({**config, "group.id": "g", "reconnect.backoff.ms": 1000})
    try:
        consumer.list_topics(timeout=3)
        return True
    except KafkaException:
        return False
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    audit = directory / "audit.log"
    users = " ".join(f'user_{name}="{name}-secret"' for name in ("ada", "max", "eve"))
    open_port, sasl_port = free_ports(2)
    settings = {
        "node.id": "1",
        "log.dirs": f"{directory}/data",
        "listeners": f"PLAINTEXT://127.0.0.1:{open_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} {users};",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{BEARER};",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
        "odradek.audit.sink": "file",
        "odradek.audit.file": str(audit),
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    operator = Shell(f"127.0.0.1:{open_port}")
    with operator.started("broker", str(path)) as process:
        assert process.stdout is not None
        assert any("is ready at" in line for line in process.stdout)
        yield Secured(operator, f"127.0.0.1:{sasl_port}", audit)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def test_acls_and_roles_decide_about_users(secured: Secured) -> None:
    operator = secured.operator
    operator.ok("topics", "--create", "--topic", "orders")
    denied = send(secured.config("ada"), "orders")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    operator.ok("roles", "grant", "writer", "--principal", "User:ada", "--topic", "orders")
    assert send(secured.config("ada"), "orders") is None
    assert send(secured.config("max"), "orders") is not None
    operator.ok("acls", "--add", "--deny-principal", "User:ada", "--operation", "Write",
                "--topic", "orders")  # fmt: skip
    assert send(secured.config("ada"), "orders") is not None
    operator.ok("acls", "--remove", "--topic", "orders", "--force")
    assert send(secured.config("ada"), "orders") is None


def test_a_group_in_a_token_has_its_roles(secured: Secured) -> None:
    operator = secured.operator
    operator.ok("topics", "--create", "--topic", "shop-1")
    operator.ok("roles", "grant", "owner", "--principal", "Group:shop", "--topic", "shop-",
                "--prefixed")  # fmt: skip
    assert send(secured.token_config("max", "staff", "shop"), "shop-1") is None
    assert send(secured.token_config("max", "staff"), "shop-1") is not None
    # The same user by password is in no group.
    assert send(secured.config("max"), "shop-1") is not None
    explained = operator.ok("acls", "--explain", "User:max", "--member-of", "Group:shop",
                            "--operation", "Write", "--topic", "shop-1")  # fmt: skip
    assert "the role owner of Group:shop" in explained
    operator.ok("acls", "--add", "--deny-principal", "Group:shop", "--operation", "Write",
                "--topic", "shop-1")  # fmt: skip
    assert send(secured.token_config("max", "staff", "shop"), "shop-1") is not None

    def groups_denied() -> list[list[str] | None]:
        found = secured.events(event="authorization", principal="User:max", resource="shop-1")
        return [event.get("groups") for event in found]

    wait_for(lambda: ["Group:shop", "Group:staff"] in groups_denied())


def test_log_ins_are_audited_with_who_and_how(secured: Secured) -> None:
    assert log_in(secured.config("eve"))
    assert not log_in(secured.config("eve", "a-wrong-password"))
    assert not log_in(secured.config("nobody"))

    def outcomes(user: str) -> set[tuple[str, str]]:
        found = secured.events(event="authentication", principal=f"User:{user}")
        return {(event["result"], event["operation"]) for event in found}

    wait_for(lambda: ("failure", "PLAIN") in outcomes("nobody"))
    assert outcomes("eve") == {("success", "PLAIN"), ("failure", "PLAIN")}
    assert outcomes("nobody") == {("failure", "PLAIN")}
    written = secured.audit.read_text()
    for secret in ("a-wrong-password", "eve-secret", "nobody-secret"):
        assert secret not in written
    (event, *_) = secured.events(event="authentication", principal="User:eve")
    assert event["address"].startswith("127.0.0.1:")
    assert event["listener"] == "SASL_PLAINTEXT"


def test_a_tool_acts_as_the_user_in_its_file(secured: Secured, tmp_path: Path) -> None:
    """The changes that a user makes are in the audit log with its name."""
    password = tmp_path / "password.properties"
    password.write_text("max=max-secret\n")
    client = tmp_path / "client.properties"
    client.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="max" password="${{file:{password}:max}}";\n'
    )
    secured.operator.ok("roles", "grant", "operator", "--principal", "User:max", "--cluster")
    tool = Shell(secured.sasl)
    made = tool.ok("topics", "--create", "--topic", "by-max", "--command-config", str(client))
    assert "by-max" in made
    refused = tool.refused("acls", "--list", "--command-config", str(client))
    assert "permission" in refused.lower()
    wait_for(lambda: bool(secured.events(event="authorization", api="DescribeAcls")))
    (change,) = secured.events(event="change", resource="by-max")
    assert (change["principal"], change["api"]) == ("User:max", "CreateTopics")
    (denial,) = secured.events(event="authorization", api="DescribeAcls")
    assert (denial["principal"], denial["operation"]) == ("User:max", "Describe")


def wait_for(condition: Callable[[], bool], deadline_s: float = 20) -> None:
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, "the condition did not become true"
        time.sleep(0.05)
