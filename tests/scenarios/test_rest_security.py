"""The REST proxy acts as its callers: it can do nothing that the broker would refuse them."""

import base64
import json
import time
from collections.abc import Iterator

import pytest

from tests.scenarios.connect_process import until
from tests.scenarios.rest_server import JSON_V2, V2, Rest, basic, rest_started
from tests.scenarios.test_real_principals import Secured, secured

__all__ = ["secured"]

RECORDS = {"records": [{"value": 1}]}
TOPIC = "ledger"


@pytest.fixture(scope="module")
def rest(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    secured.operator.ok("topics", "--create", "--topic", TOPIC)
    allow = ("acls", "--add", "--allow-principal")
    secured.operator.ok(*allow, "User:ada", "--topic", TOPIC, "--operation", "ALL")
    secured.operator.ok(*allow, "User:ada", "--group", "*", "--operation", "ALL")
    secured.operator.ok(*allow, "User:max", "--topic", TOPIC, "--operation", "DESCRIBE")
    secured.operator.ok(*allow, "User:max", "--group", "*", "--operation", "ALL")
    settings = {
        "bootstrap.servers": secured.sasl,
        "client.security.protocol": "SASL_PLAINTEXT",
        "client.sasl.mechanism": "PLAIN",
    }
    with rest_started(tmp_path_factory.mktemp("rest"), settings) as started:
        yield started


def bearer(user: str) -> dict[str, str]:
    claims = {"sub": user, "iat": int(time.time()), "exp": int(time.time()) + 600}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    return {"Authorization": f"Bearer {token}."}


def test_without_a_log_in_nothing_is_answered(rest: Rest) -> None:
    wrong = [
        {},
        basic("ada", "wrong"),
        basic("nobody"),
        {"Authorization": "Basic ###"},
        {"Authorization": "Bearer x.y.z"},
    ]
    for path in ("/topics", "/v3/clusters", "/", "/openapi.json", "/consumers/g/instances/i"):
        for headers in wrong:
            answer = rest("GET", path, None, headers)
            assert (answer.status, answer.code) == (401, 40101), (path, headers)
    assert rest.get("/readyz").status == 200


def test_acls_decide_for_each_caller(rest: Rest) -> None:
    path = f"/topics/{TOPIC}"
    assert rest("POST", path, RECORDS, basic("ada"), kind=JSON_V2).status == 200
    assert rest("POST", path, RECORDS, bearer("ada"), kind=JSON_V2).status == 200
    for headers in (basic("max"), bearer("max")):
        answer = rest("POST", path, RECORDS, headers, kind=JSON_V2)
        assert answer.status == 403, answer.body
        assert answer.json["offsets"][0]["error_code"] == 40301
    # Who may not see a topic is not told whether there is one.
    answer = rest("GET", path, None, basic("eve"))
    assert answer.status in (403, 404)
    assert rest("GET", "/topics", None, basic("eve")).json == []
    assert rest("GET", "/topics", None, basic("ada")).json == [TOPIC]


def test_version_3_refuses_what_the_broker_refuses(rest: Rest) -> None:
    def v3(path: str) -> str:
        return rest.v3(path, basic("ada"))

    value = {"value": {"type": "STRING", "data": "x"}}
    produced = rest("POST", v3(f"/topics/{TOPIC}/records"), value, basic("max"))
    assert produced.json["error_code"] == 40301
    # There is something to read, whichever tests ran before.
    assert (
        rest("POST", v3(f"/topics/{TOPIC}/records"), value, basic("ada")).json["error_code"] == 200
    )
    acl = {
        "resource_type": "TOPIC", "resource_name": TOPIC, "pattern_type": "LITERAL",
        "principal": "User:eve", "host": "*", "operation": "ALL", "permission": "ALLOW",
    }  # fmt: skip
    for method, path, body in [
        ("POST", "/topics", {"topic_name": "mine"}),
        ("DELETE", f"/topics/{TOPIC}", None),
        ("PATCH", f"/topics/{TOPIC}", {"partitions_count": 5}),
        ("PUT", f"/topics/{TOPIC}/configs/retention.ms", {"value": "1"}),
        ("PUT", "/brokers/1/configs/log.retention.ms", {"value": "1"}),
        ("PUT", "/broker-configs/log.retention.ms", {"value": "1"}),
        ("POST", f"/topics/{TOPIC}/configs:alter", {"data": [{"name": "retention.ms"}]}),
        ("POST", "/acls", acl),
        ("GET", "/acls", None),
        ("DELETE", "/acls?resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY", None),
        ("GET", f"/topics/{TOPIC}/partitions/0/records", None),
        ("GET", f"/topics/{TOPIC}/records?key=x", None),
    ]:
        answer = rest(method, v3(path), body, basic("max"))
        assert (answer.status, answer.code) == (403, 40301), (path, answer.body)


def test_two_callers_never_share_an_instance(rest: Rest) -> None:
    new = {"name": "shared", "format": "json", "auto.offset.reset": "earliest"}
    path = "/consumers/both/instances/shared"
    assert rest("POST", "/consumers/both", new, basic("ada"), kind=V2).status == 200
    rest("POST", f"{path}/subscription", {"topics": [TOPIC]}, basic("ada"), kind=V2)
    for method, rest_of_path, body in [
        ("GET", "/records", None),
        ("GET", "/subscription", None),
        ("GET", "/assignments", None),
        ("POST", "/subscription", {"topics": ["x"]}),
        ("POST", "/offsets", {"offsets": [{"topic": TOPIC, "partition": 0, "offset": 0}]}),
        ("DELETE", "", None),
    ]:
        for headers in (basic("max"), bearer("ada")):
            answer = rest(method, path + rest_of_path, body, headers, kind=V2)
            assert (answer.status, answer.code) == (404, 40403), rest_of_path
    # The name is free for others, and what they make is theirs.
    assert rest("POST", "/consumers/both", new, basic("max"), kind=V2).status == 200
    rest("POST", f"{path}/subscription", {"topics": [TOPIC]}, basic("max"), kind=V2)
    end = time.monotonic() + 30
    while (answer := rest("GET", f"{path}/records", None, basic("max"))).status == 200:
        assert answer.json == []
        assert time.monotonic() < end
    assert (answer.status, answer.code) == (403, 40301)
    assert rest("DELETE", path, None, basic("max")).status == 204
    assert rest("GET", f"{path}/subscription", None, basic("ada")).json == {"topics": [TOPIC]}
    assert rest("DELETE", path, None, basic("ada")).status == 204


def test_secrets_are_in_no_log_and_no_answer(rest: Rest) -> None:
    rest("GET", "/topics?password=ada-secret", None, basic("ada"))
    wrong = rest("GET", "/topics", None, basic("ada", "s3cr3t-guess"))
    assert b"s3cr3t" not in wrong.body
    # The line is written after the answer.
    log = until(lambda: "GET /topics 401" in (text := rest.log.read_text()) and text)
    for secret in ("ada-secret", "s3cr3t-guess", base64.b64encode(b"ada:ada-secret").decode()):
        assert secret not in log


def test_the_audit_log_of_the_broker_names_the_caller(rest: Rest, secured: Secured) -> None:
    rest("GET", "/topics", None, basic("ada"))
    assert any("User:ada" in json.dumps(event) for event in secured.events())
