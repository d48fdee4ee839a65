"""Who may change a subject: callers log in, and the brokers' ACLs decide."""

from collections.abc import Iterator

import pytest

from tests.scenarios.registry_process import Registry, running
from tests.scenarios.rest_server import basic
from tests.scenarios.test_real_principals import PLAIN, Secured, secured

__all__ = ["secured"]

TOPIC, SCHEMAS, GROUP = "clicks", "_schemas", "schema-registry"
SCHEMA = {"schema": '"string"'}


@pytest.fixture(scope="module")
def registries(
    secured: Secured, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Registry]]:
    """Two instances; their user has no more rights than docs/registry.md says."""
    operator = secured.operator
    operator.ok("topics", "--create", "--topic", TOPIC)
    allow = ("acls", "--add", "--allow-principal")
    for operation in ("Create", "Describe", "DescribeConfigs", "Read", "Write"):
        operator.ok(*allow, "User:ada", "--topic", SCHEMAS, "--operation", operation)
    for operation in ("Describe", "Read"):
        operator.ok(*allow, "User:ada", "--group", GROUP, "--operation", operation)
    for operation in ("Describe", "Write"):
        operator.ok(*allow, "User:ada", "--transactional-id", f"{GROUP}-{SCHEMAS}",
                    "--operation", operation)  # fmt: skip
    operator.ok(*allow, "User:max", "--topic", TOPIC, "--operation", "Write")
    settings = {
        "kafkastore.security.protocol": "SASL_PLAINTEXT",
        "kafkastore.sasl.mechanism": "PLAIN",
        "kafkastore.sasl.jaas.config": f'{PLAIN} username="ada" password="ada-secret";',
        "authentication.method": "BASIC",
    }
    where = tmp_path_factory.mktemp("registries")
    with (
        running(where / "a", secured.sasl, **settings) as first,
        running(where / "b", secured.sasl, **settings) as second,
    ):
        yield [first, second]


@pytest.mark.parametrize("which", [0, 1], ids=["primary", "other"])
def test_acls_decide_who_may_change_what(registries: list[Registry], which: int) -> None:
    ask = registries[which].ask
    value, other = f"/subjects/{TOPIC}-value/versions", "/subjects/other/versions"
    for headers in (None, basic("max", "wrong"), basic("nobody")):
        for method, path in (("GET", "/subjects"), ("POST", value), ("PUT", "/config")):
            status, answer = ask(method, path, SCHEMA if method == "POST" else None, headers)
            assert (status, answer["error_code"]) == (401, 40101)
    for who, path, expected in [
        ("eve", value, 403),
        ("max", other, 403),
        ("max", value, 200),
        ("ada", other, 200),
    ]:
        status, answer = ask("POST", path, SCHEMA, basic(who))
        assert status == expected, (who, path, answer)
    for method, path, body in [
        ("PUT", "/config", {"compatibility": "NONE"}),
        ("PUT", "/mode", {"mode": "READONLY"}),
        ("DELETE", f"/subjects/{TOPIC}-value", None),
        ("PUT", f"/config/{TOPIC}-value", {"compatibility": "NONE"}),
        ("DELETE", "/mode", None),
        ("POST", f"/subjects/{TOPIC}-value/versions/1/tags", {}),
        ("DELETE", "/contexts/.c", None),
        ("PUT", f"/contexts/.c/config/{TOPIC}-value", {"compatibility": "NONE"}),
    ]:
        status, answer = ask(method, path, body, basic("eve"))
        assert (status, answer["error_code"]) == (403, 40301), (path, answer)
    # Every user may read.
    status, subjects = ask("GET", "/subjects", None, basic("eve"))
    assert (status, subjects) == (200, [f"{TOPIC}-value", "other"])
    assert ask("GET", "/schemas/ids/1", None, basic("eve"))[0] == 200


def test_a_forwarded_request_is_not_believed(registries: list[Registry]) -> None:
    """The header of instances gives nobody rights."""
    for registry in registries:
        headers = {**basic("eve"), "x-forward": "true"}
        assert registry.ask("PUT", "/config", {"compatibility": "NONE"}, headers)[0] == 403
