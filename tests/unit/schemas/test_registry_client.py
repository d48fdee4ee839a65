import os
import threading

import pytest

from odradek.schemas.errors import (
    BadSetting,
    NotRegistered,
    RegistryFailed,
    RegistryUnreachable,
)
from odradek.schemas.registry_client import RegistryClient, Schema
from tests.unit.schemas.registries import registry


def test_a_schema_is_asked_for_once() -> None:
    with registry() as known:
        schema_id = known.add("s", {"schema": '"long"'})
        client = RegistryClient(known.url)
        assert client.by_id(schema_id) == client.by_id(schema_id) == Schema("AVRO", '"long"')
        assert known.asked == ["GET /schemas/ids/1"]


def test_references_come_with_what_they_refer_to() -> None:
    with registry() as known:
        known.add("inner", {"schema": "1", "schemaType": "PROTOBUF"})
        middle = {"name": "i.proto", "subject": "inner", "version": 1}
        known.add("middle", {"schema": "2", "schemaType": "PROTOBUF", "references": [middle]})
        outer = {"name": "m.proto", "subject": "middle", "version": 1}
        known.add("outer", {"schema": "3", "schemaType": "PROTOBUF", "references": [outer]})
        found = RegistryClient(known.url).latest("outer")
        imports = (("i.proto", "1"), ("m.proto", "2"))
        assert (found.id, found.schema) == (3, Schema("PROTOBUF", "3", imports))


def test_registering_gives_the_same_id_again() -> None:
    with registry() as known:
        client = RegistryClient(known.url)
        assert client.register("a/b", "JSON", "{}") == client.register("a/b", "JSON", "{}") == 1
        assert known.asked[0] == "POST /subjects/a%2Fb/versions"
        assert known.schemas[1] == {"schema": "{}", "schemaType": "JSON"}


def test_user_and_password_of_the_url_are_sent() -> None:
    with registry() as known:
        known.add("s", {"schema": '"long"'})
        RegistryClient(known.url.replace("//", "//me:p%40ss@")).by_id(1)
        assert known.authorizations == ["Basic bWU6cEBzcw=="]


def test_failures_say_who_said_what() -> None:
    with registry() as known:
        with pytest.raises(NotRegistered, match="ids/9: Schema not found") as raised:
            RegistryClient(known.url).by_id(9)
        assert (raised.value.status, raised.value.error_code) == (404, 40403)
    with pytest.raises(RegistryUnreachable, match="cannot be asked: Connection refused"):
        _impatient(known.url).by_id(1)
    with pytest.raises(BadSetting, match="is not the URL of a schema registry"):
        RegistryClient("localhost:8081")
    with pytest.raises(BadSetting, match="'host:x' is not the URL"):
        RegistryClient("http://me:secret@host:x")


def _impatient(url: str, retries: int = 1) -> RegistryClient:
    return RegistryClient(
        {"url": url, "max.retries": retries, "retries.wait.ms": 10, "timeout": 0.5}
    )


def test_a_failing_instance_is_followed_by_the_next() -> None:
    with registry() as dead:
        pass
    with registry() as busy, registry() as known:
        known.add("s", {"schema": '"long"'})
        busy.failures = [503]
        client = _impatient(f"{dead.url},{busy.url},{known.url}", retries=0)
        assert client.by_id(1).text == '"long"'
        assert (len(busy.asked), len(known.asked)) == (1, 1)
        # The instance that answered is asked first from now on.
        assert client.latest("s").version == 1
        assert (len(busy.asked), len(known.asked)) == (1, 2)


def test_requests_are_repeated_and_deletions_are_not() -> None:
    with registry() as known:
        known.add("s", {"schema": '"long"'})
        known.failures = [500]
        with pytest.raises(RegistryFailed, match="Schema not found"):
            _impatient(known.url).latest("s")
        known.failures = [0, 503]
        assert _impatient(known.url, retries=2).latest("s").id == 1
        known.asked.clear()
        known.failures = [0, 0]
        with pytest.raises(RegistryUnreachable):
            _impatient(known.url).delete_version("s", 1)
        assert len(known.asked) == 1


def test_a_silent_registry_is_not_waited_for_longer_than_the_timeout() -> None:
    with registry() as known:
        known.answering.clear()
        with pytest.raises(RegistryUnreachable, match="no answer within"):
            _impatient(known.url, retries=0).by_id(1)


def test_a_thousand_threads_ask_once() -> None:
    with registry() as known:
        known.add("s", {"schema": '"long"'})
        client = RegistryClient(known.url)
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(client.by_id(1).text)) for _ in range(1000)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ['"long"'] * 1000
        assert len(known.asked) == 1


def test_the_cache_is_bounded() -> None:
    with registry() as known:
        for number in range(4):
            known.add("s", {"schema": f'{{"type":"fixed","name":"f","size":{number + 1}}}'})
        client = RegistryClient({"url": known.url, "cache.capacity": 2})
        for schema_id in (1, 2, 3, 4, 1):
            client.by_id(schema_id)
        assert len(known.asked) == 5


def test_log_in_by_properties() -> None:
    with registry() as known:
        known.add("s", {"schema": '"long"'})
        url = {"schema.registry.url": known.url}
        for properties, expected in (
            ({"basic.auth.user.info": "me:p"}, "Basic bWU6cA=="),
            ({"schema.registry.basic.auth.user.info": "me:p"}, "Basic bWU6cA=="),
            (
                {
                    "basic.auth.credentials.source": "SASL_INHERIT",
                    "sasl.username": "me",
                    "sasl.password": "p",
                },
                "Basic bWU6cA==",
            ),
            ({"bearer.auth.token": "t"}, "Bearer t"),
            (
                {
                    "bearer.auth.credentials.source": "CUSTOM",
                    "bearer.auth.custom.provider.function": lambda _: {"bearer.auth.token": "c"},
                },
                "Bearer c",
            ),
        ):
            RegistryClient({**url, **properties}).by_id(1)
            assert known.authorizations[-1] == expected


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "schema.registry.url is not set"),
        ({"url": "http://h", "basic.auth.user.info": "me"}, "must be like user:password"),
        ({"url": "http://h", "basic.auth.credentials.source": "X"}, "must be URL, USER_INFO or"),
        ({"url": "http://h", "basic.auth.credentials.source": "USER_INFO"}, "needs basic.auth"),
        ({"url": "http://h", "bearer.auth.credentials.source": "OAUTHBEARER"}, "not supported"),
        ({"url": "http://h", "timeout": "soon"}, "timeout must be a number"),
        ({"url": "http://h", "ssl.ca.location": "/none.pem"}, "/none.pem cannot be read: No such"),
        ({"url": "http://h", "rule.executors": "x"}, "rules of schemas are not executed"),
    ],
)
def test_bad_settings_say_what_to_write(properties: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        RegistryClient(properties)


def test_a_forked_process_uses_connections_of_its_own() -> None:
    with registry() as known:
        known.add("s", {"schema": '"long"'})
        client = RegistryClient(known.url)
        client.latest("s")
        child = os.fork()
        if child == 0:
            try:
                os._exit(client.latest("s").id)
            finally:
                os._exit(99)
        assert client.latest("s").id == 1
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert known.connections == 2
