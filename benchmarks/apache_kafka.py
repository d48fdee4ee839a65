"""Apache Kafka on this machine: the reference for conformance tests and benchmarks.

The jars come through the ``mvn`` client and live in ``.cache/`` of the checkout, so a second run
starts at once. If Java or ``mvn`` is missing, functions raise ``ToolMissing`` with one line that
says how to install it; the caller decides whether that is a skip or a failure.

Invariant: every process started here listens on loopback only and ends with its context manager.
"""

import base64
import fcntl
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_process import BrokerProcess, ToolMissing, free_ports, wait_until_ready

CACHE_DIRECTORY = Path(__file__).resolve().parent.parent / ".cache"
KAFKA_VERSION = os.environ.get("ODRADEK_APACHE_KAFKA_VERSION", "4.3.1")

# The JVM flags that kafka-server-start and kafka-run-class use by default.
SERVER_JVM_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# A tool runs for a second: the fast compiler only, and a garbage collector without threads.
SHORT_TOOL_JVM_FLAGS = ("-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# A performance client runs as long as the server, so it gets the same compiler.
LONG_TOOL_JVM_FLAGS = ("-Xmx512M", *SERVER_JVM_FLAGS[2:])

TOOLS: Mapping[str, str] = {
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}

LOG4J_CONFIGURATION = """\
status = error
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
"""


def require_program(program: str, debian_package: str, brew_package: str) -> str:
    """Returns the path of an external program; raises ToolMissing, which says how to install it."""
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(
            f"{program} is not installed: apt-get install {debian_package},"
            f" or brew install {brew_package}"
        )
    return found


def java_program() -> str:
    return require_program("java", "default-jdk-headless", "openjdk")


def javac_program() -> str:
    return require_program("javac", "default-jdk-headless", "openjdk")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A Maven coordinate."""

    group: str
    name: str
    version: str

    def as_dependency(self) -> str:
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version></dependency>"
        )


def install_jars(directory_name: str, artifacts: Sequence[Artifact]) -> Path:
    """Downloads artifacts and their dependencies into ``.cache/<directory_name>/libs``, once."""
    directory = CACHE_DIRECTORY / directory_name
    libraries = directory / "libs"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may come here at once
        pom = _pom_for(artifacts)
        stamp = directory / "complete"
        if stamp.exists() and stamp.read_text() == pom:
            return libraries
        maven = require_program("mvn", "maven", "maven")
        java_program()
        (directory / "pom.xml").write_text(pom)
        shutil.rmtree(libraries, ignore_errors=True)
        command = [
            maven,
            "-q",
            "-B",
            "-f",
            str(directory / "pom.xml"),
            "dependency:copy-dependencies",
        ]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={libraries}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            reason = lines[0] if lines else "no reason given"
            raise ToolMissing(f"mvn could not fetch {artifacts[0].name}: {reason}")
        stamp.write_text(pom)
    return libraries


def _pom_for(artifacts: Sequence[Artifact]) -> str:
    dependencies = "\n".join(artifact.as_dependency() for artifact in artifacts)
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>odradek</groupId>"
        "<artifactId>beside</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )


class ApacheKafka:
    """An installed Apache Kafka: starts brokers and runs its tools by their short names."""

    def __init__(self, libraries: Path) -> None:
        self.libraries = libraries
        self.java = java_program()
        self._logging = libraries.parent / "log4j2.properties"
        if not self._logging.exists():
            self._logging.write_text(LOG4J_CONFIGURATION)

    @classmethod
    def install(cls, version: str = KAFKA_VERSION) -> "ApacheKafka":
        java_program()
        artifacts = [
            Artifact("org.apache.kafka", "kafka_2.13", version),
            Artifact("org.apache.kafka", "kafka-tools", version),
            Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
        ]
        return cls(install_jars(f"apache-kafka-{version}", artifacts))

    def java_command(
        self, class_name: str, jvm_flags: Sequence[str] = SHORT_TOOL_JVM_FLAGS
    ) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._logging}"
        return [self.java, *jvm_flags, logging, "-cp", f"{self.libraries}/*", class_name]

    def tool_command(
        self, tool: str, *arguments: str, jvm_flags: Sequence[str] = SHORT_TOOL_JVM_FLAGS
    ) -> list[str]:
        return [*self.java_command(TOOLS[tool], jvm_flags), *arguments]

    def run_tool(
        self,
        tool: str,
        *arguments: str,
        stdin: bytes | None = None,
        timeout_s: float = 60,
        jvm_flags: Sequence[str] = SHORT_TOOL_JVM_FLAGS,
    ) -> str:
        """Runs a tool and returns its standard output; raises an error with all of its output if it
        fails."""
        command = self.tool_command(tool, *arguments, jvm_flags=jvm_flags)
        done = subprocess.run(
            command, input=stdin or b"", capture_output=True, timeout=timeout_s, check=False
        )
        output = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise RuntimeError(
                f"{tool} ended with {done.returncode}:\n{output}\n{done.stderr.decode()}"
            )
        return output

    def format_storage(self, configuration: Path) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster_id.startswith("-"):  # otherwise the tool would read it as an option
            cluster_id = "O" + cluster_id[1:]
        self.run_tool("storage", "format", "-t", cluster_id, "-c", str(configuration))

    def prepare(self, directory: Path, overrides: Mapping[str, str] | None = None) -> "KafkaNode":
        """Prepares a combined broker and controller in ``directory``, and formats it if it is
        new."""
        directory.mkdir(parents=True, exist_ok=True)
        port, controller_port = free_ports(2)
        data_directory = directory / "data"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data_directory),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(overrides or {}),
        }
        configuration = directory / "server.properties"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if not (data_directory / "meta.properties").exists():
            self.format_storage(configuration)
        return KafkaNode(self, configuration, data_directory, port)

    @contextmanager
    def broker(
        self, directory: Path, overrides: Mapping[str, str] | None = None
    ) -> Iterator[BrokerProcess]:
        """Yields a running single node and stops it cleanly. With the same directory it can be
        started again."""
        node = self.prepare(directory, overrides)
        broker = node.start()
        try:
            wait_until_ready(broker)
            yield broker
        finally:
            broker.stop()


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """A formatted node whose process is not started."""

    kafka: ApacheKafka
    configuration: Path
    data_directory: Path
    port: int

    def start(self) -> BrokerProcess:
        """Start the JVM and return at once; ``wait_until_ready`` waits for its first answer."""
        command = self.kafka.java_command("kafka.Kafka", SERVER_JVM_FLAGS)
        return BrokerProcess.start(
            name="Apache Kafka",
            command=[*command, str(self.configuration)],
            port=self.port,
            data_directory=self.data_directory,
            output=self.configuration.parent / "server.log",
        )
