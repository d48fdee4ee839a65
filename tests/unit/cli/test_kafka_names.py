"""Names and spellings that users bring from Kafka's distribution."""

import pytest

from odradek.cli import kafka_names, kcat
from odradek.cli.commands import KAFKAS, SUMMARIES, module_name
from odradek.cli.main import main
from odradek.cli.parser import load_tool
from odradek.tools.failures import UsageError

Captured = pytest.CaptureFixture[str]


def parsed(command: str, *words: str) -> object:
    _, parser = load_tool(command, module_name(command))
    return parser.parse_args(words)


class TestClasses:
    def test_every_class_names_a_command(self) -> None:
        for name, command in kafka_names._CLASSES.items():
            assert command in SUMMARIES or command in kafka_names.OLDER_NAMES, name

    @pytest.mark.parametrize(
        ("name", "command"),
        [
            ("kafka.tools.DumpLogSegments", "dump-log"),
            ("kafka.tools.GetOffsetShell", "get-offsets"),
            ("org.apache.kafka.tools.GetOffsetShell", "get-offsets"),
            ("kafka.admin.ConsumerGroupCommand", "consumer-groups"),
            ("kafka.tools.ReplicaVerificationTool", "replica-verification"),
            ("kafka.Kafka", "broker"),
        ],
    )
    def test_a_class_runs_its_tool(self, name: str, command: str, capsys: Captured) -> None:
        with pytest.raises(SystemExit):
            main(["kafka-run-class.sh", name, "--help"])
        assert capsys.readouterr().out.startswith(f"usage: odradek {command}")

    def test_options_of_the_jvm_are_passed_over(self, capsys: Captured) -> None:
        with pytest.raises(SystemExit):
            main(["kafka-run-class", "-name", "-daemon", "kafka.admin.TopicCommand", "--help"])
        assert capsys.readouterr().out.startswith("usage: odradek topics")

    @pytest.mark.parametrize(
        ("words", "answer"),
        [
            (["kafka.tools.ConsumerOffsetChecker"], "use: odradek consumer-groups --describe"),
            (["kafka.tools.GetOffsetShel"], "did you mean GetOffsetShell?"),
            (["com.example.Main"], "no Java classes here"),
            ([], "name a tool's class"),
        ],
    )
    def test_other_classes_are_answered(
        self, words: list[str], answer: str, capsys: Captured
    ) -> None:
        assert main(["kafka-run-class.sh", *words]) == 2
        assert answer in capsys.readouterr().err


class TestDashes:
    def test_one_dash_is_enough(self) -> None:
        arguments = vars(parsed("topics", "-describe", "-topic", "t", "-partitions=3"))
        assert arguments["describe"] is True
        assert arguments["topic"] == "t"
        assert arguments["partitions"] == 3

    def test_older_spellings_have_one_dash_too(self) -> None:
        assert vars(parsed("topics", "-list", "-broker-list", "a:1"))["bootstrap_server"] == "a:1"

    @pytest.mark.parametrize("words", [["--time", "-1"], ["-time", "-1"], ["--time=-1"]])
    def test_a_negative_number_is_a_value(self, words: list[str]) -> None:
        assert vars(parsed("get-offsets", *words))["time"] == -1

    def test_a_value_may_begin_with_a_dash(self) -> None:
        assert vars(parsed("topics", "--describe", "--topic", "-odd"))["topic"] == "-odd"

    def test_a_flag_is_not_taken_for_a_value(self) -> None:
        with pytest.raises(UsageError, match="--topic: needs a value"):
            parsed("topics", "--describe", "--topic", "--list")
        with pytest.raises(UsageError, match="--topic: needs a value"):
            parsed("topics", "-topic", "-list")

    def test_a_misspelt_flag_with_one_dash(self) -> None:
        with pytest.raises(UsageError, match="unknown flag -descibe; did you mean --describe"):
            parsed("topics", "-descibe")

    def test_words_after_two_dashes_stand_as_they_are(self) -> None:
        assert vars(parsed("server-stop", "--", "-all"))["directories"] == ["-all"]


@pytest.mark.parametrize("kind", ["topic", "topics", "Topic", "TOPICS"])
def test_the_number_of_an_entity_type_does_not_matter(kind: str) -> None:
    assert vars(parsed("configs", "--describe", "--entity-type", kind))["entity_type"] == ["topics"]


class TestKcat:
    @pytest.mark.parametrize(
        ("typed", "line"),
        [
            ("-P -b h:1 -t T", "odradek console-producer --bootstrap-server h:1 --topic T"),
            (
                "-P -t T -K:",
                (
                    "odradek console-producer --topic T --reader-property parse.key=true"
                    " --reader-property key.separator=:"
                ),
            ),
            ("-C -t T", "odradek console-consumer --topic T --from-beginning"),
            ("-C -t T -o end -c 5", "odradek console-consumer --topic T --max-messages 5"),
            (
                "-C -t T -p 0 -o beginning -e",
                (
                    "odradek console-consumer --topic T --partition 0 --offset earliest"
                    " --timeout-ms 1000"
                ),
            ),
            ("-G g T", "odradek console-consumer --topic T --group g"),
            (
                "-C -t T -s value=avro -r http://r:8081",
                (
                    "odradek console-consumer --topic T --from-beginning --command-property"
                    " schema.registry.url=http://r:8081"
                ),
            ),
            ("-C -t T -s avro", "odradek avro-console-consumer --topic T --from-beginning"),
            ("-C -t T -s value=i", "odradek console-consumer --topic T --from-beginning"),
            ("-L -b h:1", "odradek topics --describe --bootstrap-server h:1"),
            ("-Q -t T:0:-1", "odradek get-offsets --topic-partitions T:0 --time -1"),
        ],
    )
    def test_the_line_to_type(self, typed: str, line: str) -> None:
        assert kcat.line_to_type(typed.split()) == line
        command, *words = line.split()[1:]
        parsed(command, *words)  # It is a command line that our own parser takes.

    @pytest.mark.parametrize("typed", ["", "--what", "-b h:1"])
    def test_without_a_mode_all_are_named(self, typed: str) -> None:
        assert "odradek topics --describe (-L)" in kcat.line_to_type(typed.split())


def test_what_is_not_here_yet_says_what_to_use(capsys: Captured) -> None:
    for name in ("connect-mirror-maker.sh", "kafka-mirror-maker.sh"):
        assert main([name, "a.properties"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "not part of this version yet" in said
        assert "odradek " in said.partition("yet")[2], name


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("confluent start", "here type: odradek local start"),
        ("jps", "here type: odradek local status"),
        ("systemctl start kafka", "odradek local start"),
        ("avro-tools compile schema a.avsc .", "odradek.schemas.avro.AvroCodec"),
        ("keytool -genkey", "here type: odradek certs create"),
        ("openssl req -new", "here type: odradek certs create"),
        ("curl localhost:8082/topics", "odradek rest-start"),
        ("flume-ng agent", "odradek connect-standalone"),
        ("java -ea -cp a.jar com.pinterest.secor.main.ConsumerMain", "odradek archive --include"),
        ("kafka-run-class -cp a.jar", "name a tool's class"),
        ("broker -daemon config/a.properties", "nohup odradek broker config/a.properties"),
        ("zookeeper-server-start.sh -daemon a.properties", "nohup odradek zookeeper a.properties"),
        ("zookeeper-shell", "odradek zookeeper-shell: HOST:PORT|DIR is needed\n"),
        ("configs --describe --entity-type users --entity-type ips", "cannot name a user"),
    ],
)
def test_other_programs_and_habits_are_answered(capsys: Captured, line: str, words: str) -> None:
    assert main(line.split()) == 2
    assert words in capsys.readouterr().err.splitlines(keepends=True)[-1]


def test_java_runs_the_tool_of_a_class(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["java", "-Xmx1g", "-cp", "libs/*", "kafka.tools.DumpLogSegments", "--help"])
    assert "odradek dump-log" in capsys.readouterr().out


def test_commands_of_kafka_are_commands() -> None:
    assert set(KAFKAS) < set(SUMMARIES)
    assert {"topics", "zookeeper-shell", "server-stop"} <= set(KAFKAS)
