"""Apache Kafka's own kafka-configs changes the levels of an Odradek broker's loggers."""

import subprocess

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess

TOOL = "kafka.admin.ConfigCommand"


def configs(kafka_home: ApacheKafka, broker: BrokerProcess, *flags: str) -> str:
    command = [*kafka_home.java_command(TOOL), "--bootstrap-server", broker.bootstrap, *flags]
    command += ["--entity-type", "broker-loggers", "--entity-name", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def test_levels_by_kafkas_tool(kafka_home: ApacheKafka, odradek_broker: BrokerProcess) -> None:
    described = configs(kafka_home, odradek_broker, "--describe")
    assert "  kafka.request.logger=WARN sensitive=false synonyms={}\n" in described
    assert "  odradek.request=WARN sensitive=false synonyms={}\n" in described
    change = "kafka.request.logger=DEBUG,odradek.controller=ERROR"
    assert "Completed updating config for broker-logger 1." in configs(
        kafka_home, odradek_broker, "--alter", "--add-config", change
    )
    described = configs(kafka_home, odradek_broker, "--describe")
    assert "  odradek.request=DEBUG " in described
    assert "  kafka.controller=ERROR " in described
    requests = odradek_broker.data_directory / "request.log"
    assert " api=DescribeConfigs version=4 " in requests.read_text()
    back = "odradek.request,odradek.controller"
    configs(kafka_home, odradek_broker, "--alter", "--delete-config", back)
    described = configs(kafka_home, odradek_broker, "--describe")
    assert "  odradek.request=WARN " in described
    assert "  odradek.controller=INFO " in described
    assert "Invalid broker logger(s): no.such.logger" in configs(
        kafka_home, odradek_broker, "--alter", "--add-config", "no.such.logger=INFO"
    )
