"""`odradek schema` and the consoles of schemas, with a real registry and a real broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.cluster import Cluster
from tests.scenarios.registry_process import running

OLD = '{"type":"record","name":"Click","fields":[{"name":"n","type":"long"}]}'
GOOD = OLD.replace("]}", ',{"name":"by","type":"string","default":"?"}]}')
BAD = OLD.replace("]}", ',{"name":"by","type":"string"}]}')


class Tools:
    """Runs tools as a user does, in a directory with the registry in the environment."""

    def __init__(self, directory: Path, bootstrap: str, registry: str) -> None:
        self.directory = directory
        self.environment = {
            "ODRADEK_BOOTSTRAP": bootstrap,
            "ODRADEK_SCHEMA_REGISTRY": registry,
            "ODRADEK_CONFIG": "/dev/null",
            "PATH": "/usr/bin:/bin",
        }

    def run(
        self, *words: str, given: str = "", code: int = 0, environment: dict[str, str] | None = None
    ) -> str:
        """Returns what a tool prints; its errors follow if it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "odradek.cli", *words],
            cwd=self.directory,
            env=self.environment if environment is None else environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + (done.stderr if code else "")


@pytest.fixture(scope="module")
def tools(odradek_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    directory = tmp_path_factory.mktemp("schemas")
    for name, text in (("old.avsc", OLD), ("good.avsc", GOOD), ("bad.avsc", BAD)):
        (directory / name).write_text(text)
    with running(directory, odradek_cluster.bootstrap) as registry:
        yield Tools(directory, odradek_cluster.bootstrap, f"http://127.0.0.1:{registry.port}")


def test_a_field_that_the_schema_has_not_is_refused(tools: Tools) -> None:
    """It is a misspelt name, or data that would be lost without a word."""
    send = ["avro-console-producer", "--topic", "unknown-fields"]
    send += ["--reader-property", "value.schema.file=good.avsc"]
    for line, name in (
        ('{"n": 1, "by": "ada", "bye": 2}', "bye"),
        ('{"n": 1, "bye": "ada"}', "by"),
    ):
        said = tools.run(*send, given=line, code=1)
        assert "line 1: a value does not fit its Avro schema" in said
        assert name in said
    said = tools.run(*send, given="hello", code=1)
    assert "line 1: this is not JSON" in said
    assert "each line is one JSON value" in said
    tools.run(*send, given='{"n": 1}')


def test_a_registry_that_is_away_is_not_taken_for_a_broker(tools: Tools) -> None:
    away = "schema.registry.url=http://127.0.0.1:1"
    send = ["avro-console-producer", "--topic", "away", "--reader-property", away]
    schema = ["--reader-property", "value.schema.file=old.avsc"]
    said = tools.run(*send, *schema, given='{"n": 1}', code=1)
    assert "the registry at http://127.0.0.1:1 cannot be asked" in said
    assert "schema.registry.url" in said
    assert "--bootstrap-server" not in said
    tools.run(*send[:3], *schema, given='{"n": 1}')
    read = ["avro-console-consumer", "--topic", "away", "--from-beginning", "--max-messages", "1"]
    said = tools.run(*read, "--formatter-property", away, code=1)
    assert "say where it is with schema.registry.url" in said
    assert "poll()" not in said


def test_the_life_of_a_schema(tools: Tools) -> None:
    subject = "life-value"
    assert "may follow" in tools.run("schema", "check", subject, "old.avsc")
    assert "life-value version 1 has id" in tools.run("schema", "register", subject, "old.avsc")
    assert json.loads(tools.run("schema", "get", subject)) == json.loads(OLD)
    assert "may follow" in tools.run("schema", "check", subject, "good.avsc")
    refused = tools.run("schema", "check", subject, "bad.avsc", code=1)
    assert "may not follow in life-value (level BACKWARD)" in refused
    assert "by" in refused
    refused = tools.run("schema", "register", subject, "bad.avsc", code=1)
    assert "incompatible" in refused
    assert tools.run("schema", "compat", subject, "NONE") == f"{subject}: NONE\n"
    assert tools.run("schema", "compat", subject, "--reset") == f"{subject}: BACKWARD\n"
    assert "version 2" in tools.run("schema", "register", subject, "good.avsc")
    assert "version 2  AVRO" in tools.run("schema", "list")
    assert tools.run("schema", "list", subject, "--json") == "[1, 2]\n"
    changed = tools.run("schema", "diff", subject)
    assert "life-value version 1" in changed
    assert "(BACKWARD compatible)" in changed
    found = json.loads(tools.run("schema", "get", subject, "--version", "1", "--json"))
    assert found["schemaType"] == "AVRO"
    assert json.loads(tools.run("schema", "get", "--id", str(found["id"]))) == json.loads(OLD)
    assert "deleted 1 version" in tools.run("schema", "delete", subject, "--version", "1")
    assert "deleted 1 version" in tools.run("schema", "delete", subject)
    assert "not found" in tools.run("schema", "get", subject, code=1)
    assert "deleted 2 versions" in tools.run("schema", "delete", subject, "--permanent")


def test_a_difference_is_said_in_words(tools: Tools) -> None:
    said = tools.run("schema", "diff", "old.avsc", "bad.avsc")
    assert "the new schema cannot read all of what the old one wrote" in said
    assert "The field 'by' at path '/fields/1' of the new schema has no default" in said
    assert "the old schema reads what the new one writes (FORWARD compatible)" in said
    assert (
        json.loads(tools.run("schema", "diff", "old.avsc", "bad.avsc", "--json"))["forward"] == []
    )
    assert "the same schema" in tools.run("schema", "diff", "old.avsc", "old.avsc")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("register", "s"), 2, "write: odradek schema register SUBJECT FILE"),
        (("get",), 2, "odradek schema get --id N"),
        (("register", "s", "old.txt"), 2, "say which format it has with --type"),
        (("register", "s", "none.avsc"), 1, "none.avsc"),
        (("list", "--permanent"), 2, "--permanent goes with odradek schema delete"),
        (("compat", "s", "HALF"), 2, "HALF is not a level"),
        (("get", "s", "--registry", "http://127.0.0.1:1"), 1, "say where it is with --registry"),
        (("get", "s", "--registry", "127.0.0.1:1"), 2, "is not the URL of a schema registry"),
    ],
)
def test_mistakes(tools: Tools, words: tuple[str, ...], code: int, message: str) -> None:
    (tools.directory / "old.txt").write_text(OLD)
    said = tools.run("schema", *words, code=code)
    assert message in said
    assert "Traceback" not in said


_CONSOLES = [
    (
        "avro",
        '{"type":"record","name":"C","fields":[{"name":"by","type":["null","string"]}]}',
        ['{"by": {"string": "Zoë"}}', '{"by": "ada"}', '{"by": null}'],
        ['{"by": {"string": "Zoë"}}', '{"by": {"string": "ada"}}', '{"by": null}'],
        '{"by": 7}',
    ),
    (
        "json-schema",
        '{"type":"object","properties":{"n":{"type":"integer"}}}',
        ['{"n": 1}', "{}"],
        ['{"n":1}', "{}"],
        '{"n": "x"}',
    ),
    (
        "protobuf",
        'syntax = "proto3"; message C { string by_whom = 1; int64 n = 2; }',
        ['{"byWhom": "Zoë"}', '{"by_whom": "ada", "n": "7"}'],
        ['{"byWhom": "Zoë", "n": "0"}', '{"byWhom": "ada", "n": "7"}'],
        '{"nobody": 1}',
    ),
]


@pytest.mark.parametrize("console", _CONSOLES, ids=["avro", "json-schema", "protobuf"])
def test_what_a_console_sends_it_prints(
    tools: Tools, console: tuple[str, str, list[str], list[str], str]
) -> None:
    name, schema, lines, shown, bad = console
    topic = f"{name}-console"
    tools.run("topics", "--create", "--topic", topic)
    schema_file = tools.directory / f"{name}.schema"
    schema_file.write_text(schema)
    url = f"schema.registry.url={tools.environment['ODRADEK_SCHEMA_REGISTRY']}"
    plain = {k: v for k, v in tools.environment.items() if k != "ODRADEK_SCHEMA_REGISTRY"}
    send = [f"{name}-console-producer", "--topic", topic, "--property", url]
    tools.run(
        *send, "--property", f"value.schema={schema}", given="\n".join(lines), environment=plain
    )
    failed = tools.run(
        *send,
        *("--property", f"value.schema.file={schema_file}", "--property", "parse.key=true"),
        given=f"k\t{lines[0]}\nk\t{bad}\n",
        code=1,
    )
    assert "Traceback" not in failed
    read = [f"{name}-console-consumer", "--topic", topic, "--from-beginning"]
    count = str(len(lines) + 1)
    found = tools.run(
        *read, "--max-messages", count, "--property", url, environment=plain
    ).splitlines()
    assert found == [*shown, shown[0]]
    found = tools.run(
        *read,
        *("--max-messages", count, "--property", "print.key=true"),
        *("--property", "key.deserializer=StringDeserializer"),
        *("--property", "print.schema.ids=true"),
    ).splitlines()
    assert found[-1].startswith(f"k\t{shown[0]}\t")
    # The plain consumer decodes too, where a registry is configured, and shows bytes where not.
    words = ["console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "1"]
    assert tools.run(*words) == f"{shown[0]}\n"
    assert tools.run(*words, environment=plain).startswith("\0\0\0\0")


@pytest.mark.parametrize("in_headers", [False, True])
def test_get_decodes_by_the_registry(tools: Tools, in_headers: bool) -> None:
    topic = f"state-{in_headers}"
    tools.run("topics", "--create", "--topic", topic)
    properties = ["--property", f"value.schema={OLD}", "--property", "parse.key=true"]
    if in_headers:
        name = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
        properties += ["--property", f"schema.id.serializer={name}"]
    send = ["avro-console-producer", "--topic", topic, *properties]
    tools.run(*send, given='ada\t{"n": 1}\nada\t{"n": 2}\n')
    get = ["get", "--topic", topic, "--key", "ada"]
    assert tools.run(*get) == '{"n": 2}\n'
    assert tools.run(*get, "--scan", "--formatter-property", "print.key=true") == 'ada\t{"n": 2}\n'
    assert json.loads(tools.run(*get, "--json"))["value"] == '{"n": 2}'
    raw = tools.run(*get, "--value-deserializer", "ByteArrayDeserializer")
    assert raw != '{"n": 2}\n'
    plain = {k: v for k, v in tools.environment.items() if k != "ODRADEK_SCHEMA_REGISTRY"}
    url = f"schema.registry.url={tools.environment['ODRADEK_SCHEMA_REGISTRY']}"
    assert tools.run(*get, "--command-property", url, environment=plain) == '{"n": 2}\n'
    assert '"n"' not in tools.run(*get, environment=plain)
    away = {**plain, "ODRADEK_SCHEMA_REGISTRY": "http://127.0.0.1:1"}
    failed = tools.run(*get, code=1, environment=away)
    assert "127.0.0.1:1" in failed
    assert "Traceback" not in failed


def test_a_value_without_a_schema(tools: Tools) -> None:
    tools.run("topics", "--create", "--topic", "plain")
    tools.run("console-producer", "--topic", "plain", given="hello\nmore\n")
    read = ["--topic", "plain", "--from-beginning", "--timeout-ms", "3000"]
    assert tools.run("console-consumer", *read) == "hello\nmore\n"
    refused = tools.run("avro-console-consumer", *read, code=1)
    assert "plain-0 at offset 0: the value begins with" in refused
    left_out = tools.run("avro-console-consumer", *read, "--skip-message-on-error")
    assert not left_out
    refused = tools.run("avro-console-producer", "--topic", "plain", code=2)
    assert "give the schema of values" in refused
