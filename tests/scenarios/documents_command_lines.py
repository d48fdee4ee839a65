"""The command lines of the documents that people learn Kafka from, as they are printed there.

`test_documents_command_lines` types them. A script or program that is not ours has `odradek` before
its name. Not here: `kafka-server-stop.sh` without a directory, which could stop other brokers of
this machine (`tests/unit/local/test_stopping.py` has it).
"""

from typing import NamedTuple

TOPIC = "livin_teh_duck_life"


class Accepted(NamedTuple):
    """It works; `shows` is in its output."""

    shows: str = ""
    stdin: str = ""


class Serves(NamedTuple):
    """It runs until Ctrl-C, or until the line `stop` stops it. All of `shows` is in its output
    before that."""

    shows: tuple[str, ...]
    stop: str = ""


class Answered(NamedTuple):
    """It is refused in one line that has these words."""

    words: str


ZOOKEEPER = "--zookeeper localhost:2181"
HERE = f"Topic: {TOPIC}\t"
READY = "odradek is ready at"
CLIENTS = "--entity-type clients --entity-name clueful"
LINES: list[tuple[str, Accepted | Serves | Answered]] = [
    # A Byte's Journey Through Kafka
    (
        f"./kafka-topics.sh --bootstrap-server broker:6667 --topic {TOPIC} --describe",
        Accepted(HERE),
    ),
    (f"./kafka-topics.sh --bootstrap-server broker:6667 --topic {TOPIC} -describe", Accepted(HERE)),
    (
        (
            "./kafka-consumer-groups.sh --bootstrap-server localhost:6667 --group kittys_junk_shop"
            " --describe"
        ),
        Accepted("LOG-END-OFFSET"),
    ),
    # The book: chapters 2 and 3
    (f"bin/kafka-topics.sh {ZOOKEEPER} --list", Accepted(TOPIC)),
    (
        f"kafka-topics.sh {ZOOKEEPER} --create --topic T --partitions 3 --replication-factor 3",
        Accepted("Created topic T."),
    ),
    (f"kafka-topics.sh {ZOOKEEPER} --list", Accepted("T\n")),
    (f"odradek kafka-topics.sh {ZOOKEEPER} --list", Accepted("T\n")),
    (f"odradek bin/kafka-topics.sh {ZOOKEEPER} --list", Accepted("T\n")),
    (f"odradek bin/windows/kafka-topics.bat {ZOOKEEPER} --list", Accepted("T\n")),
    (f"kafka-topics.sh --describe {ZOOKEEPER} --topic T", Accepted("PartitionCount: 3")),
    (
        "kafka-console-producer.sh --broker-list localhost:9092 --topic T",
        Accepted("", stdin="hello\n"),
    ),
    (
        (
            "kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic T"
            " --from-beginning --max-messages 1"
        ),
        Accepted("hello"),
    ),
    (
        ("kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic T --from-beginning"),
        Serves(("hello",)),
    ),
    (
        (
            "odradek connect-standalone.sh config/connect-standalone.properties"
            " config/connect-file-source.properties"
        ),
        Answered("there is no file config/connect-standalone.properties"),
    ),
    (
        (
            "kafka-console-consumer --bootstrap-server localhost:9092 --from-beginning --topic T"
            " --new-consumer --max-messages 1"
        ),
        Accepted("hello"),
    ),
    ("odradek connect-standalone WORKER SOURCE SINK", Answered("there is no file WORKER")),
    (
        (
            "odradek connect-standalone etc/schema-registry/connect-avro-standalone.properties"
            " etc/kafka-connect-jdbc/source-quickstart-sqlite.properties"
        ),
        Answered("there is no file etc/schema-registry/connect-avro-standalone.properties"),
    ),
    ("odradek avro-tools compile schema alert.avsc .", Answered("AvroCodec")),
    # Chapter 6
    ("zookeeper-shell.sh localhost:2181 ls /brokers/topics", Answered("odradek zookeeper-shell ")),
    ("zookeeper-shell.sh localhost:2181", Answered("odradek zookeeper-shell ")),
    ("zookeeper-shell.sh data ls /brokers/topics", Accepted(TOPIC)),
    ("zookeeper-shell.sh data get /controller", Accepted('"brokerid":')),
    ("zookeeper-shell.sh data", Accepted('"brokerid":', stdin="get /controller\nquit\n")),
    ("zookeeper-shell.sh data delete /controller", Accepted("elect a new controller")),
    (
        "JMX_PORT=1099 kafka-server-start.sh config/server0.properties",
        Serves((READY, "metrics at http://127.0.0.1:1099")),
    ),
    (
        "export JMX_PORT=1099; kafka-server-start.sh config/server0.properties",
        Serves((READY, "metrics at http://127.0.0.1:1099")),
    ),
    (
        (
            "odradek kafka-mirror-maker.sh --consumer.config source.properties --producer.config"
            " target.properties --whitelist test-topic"
        ),
        Answered("odradek archive"),
    ),
    (f"kafka-topics.sh {ZOOKEEPER} --describe --under-replicated-partitions", Accepted()),
    (f"kafka-topics.sh {ZOOKEEPER} --describe --unavailable-partitions", Accepted()),
    # Chapter 7
    ("kafka-topics.sh", Answered("give exactly one of --create, --list")),
    ("kafka-topics.sh --create", Answered("--create needs --topic NAME; odradek topics --help")),
    (
        (
            "kafka-topics.sh --create --bootstrap-server localhost:9092 --topic my_test_topic"
            " --replica-assignment 1:2,1:2 --if-not-exists"
        ),
        Accepted("Created topic"),
    ),
    (
        f"kafka-topics.sh {ZOOKEEPER} --alter --topic my_test_topic --partitions 3",
        Accepted("warning: records with a key go to other partitions"),
    ),
    (f"kafka-topics.sh {ZOOKEEPER} --delete --topic my_test_topic", Accepted("Deleted topic")),
    (
        (
            "kafka-run-class.sh kafka.tools.DumpLogSegments --print-data-log --files"
            " data/broker-1/rolled-0/00000000000000000000.log"
        ),
        Accepted("Log starting offset: 0"),
    ),
    (
        (
            "kafka-run-class.sh kafka.tools.DumpLogSegments --index-sanity-check --files"
            " data/broker-1/rolled-0/00000000000000000000.index"
        ),
        Accepted("00000000000000000000.index"),
    ),
    (
        (
            "kafka-run-class.sh kafka.tools.DumpLogSegments --verify-index-only --deep-iteration"
            " --files data/broker-1/rolled-0/00000000000000000000.index"
        ),
        Accepted("Dumping"),
    ),
    (
        "kafka-dump-log.sh --files data/broker-1/rolled-0/00000000000000000000.log",
        Accepted("Log starting offset: 0"),
    ),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --entity-type topics --entity-name T"
            " --add-config segment.ms=60000"
        ),
        Accepted("Completed updating config"),
    ),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --entity-type topics --entity-name T"
            " --delete-config segment.ms"
        ),
        Accepted("Completed updating config"),
    ),
    (
        (
            f"kafka-reassign-partitions.sh {ZOOKEEPER} --generate --topics-to-move-json-file"
            " topics.json --broker-list 1,2,3"
        ),
        Accepted("Proposed partition reassignment configuration"),
    ),
    (
        (
            f"kafka-reassign-partitions.sh {ZOOKEEPER} --generate --topics-to-move-json-file"
            " topics.json --broker-list 0,1,2"
        ),
        Answered("there is no broker 0; the cluster has 1, 2, 3"),
    ),
    (
        f"kafka-reassign-partitions.sh {ZOOKEEPER} --execute --reassignment-json-file plan.json",
        Accepted("Successfully started partition reassignment"),
    ),
    (
        f"kafka-reassign-partitions.sh {ZOOKEEPER} --verify --reassignment-json-file plan.json",
        Accepted("Status of partition reassignment"),
    ),
    (f"kafka-preferred-replica-election.sh {ZOOKEEPER}", Accepted()),
    (
        f"kafka-preferred-replica-election.sh {ZOOKEEPER} --path-to-json-file partitions.json",
        Accepted(),
    ),
    (
        (
            f"kafka-topics.sh --create {ZOOKEEPER} --topic compacted --partitions 1"
            " --replication-factor 3 --config cleanup.policy=compact"
        ),
        Accepted("Created topic compacted."),
    ),
    # Chapter 8
    (
        "odradek java -ea -Dsecor_group=backup -cp secor.jar com.pinterest.secor.main.ConsumerMain",
        Answered("odradek archive --include"),
    ),
    ("odradek flume-ng agent --conf-file flume.conf --name ag", Answered("connect-standalone")),
    # Chapter 9
    (
        "odradek kafkacat -P -b localhost:9092 -t T",
        Answered("type: odradek console-producer --bootstrap-server"),
    ),
    (
        "odradek kafkacat -C -b localhost:9092 -t T",
        Answered("--topic T --from-beginning"),
    ),
    (
        "odradek kafka-rest-start etc/kafka-rest/kafka-rest.properties",
        Answered("there is no file etc/kafka-rest/kafka-rest.properties"),
    ),
    (
        ('odradek curl -X GET -H "Accept: application/vnd.kafka.v2+json" localhost:8082/topics'),
        Answered("type: odradek rest-start"),
    ),
    (
        "zookeeper-server-start.sh config/zookeeper.properties",
        Serves(
            ("ZooKeeper: configured by config/zookeeper.properties",),
            stop="zookeeper-server-stop.sh config/zookeeper.properties",
        ),
    ),
    (
        "kafka-server-start.sh config/server0.properties",
        Serves((READY,), stop="kafka-server-stop.sh config/server0.properties"),
    ),
    (
        "kafka-server-start.sh -daemon config/server0.properties",
        Answered("type: nohup odradek broker config/server0.properties"),
    ),
    (
        "zookeeper-server-start.sh -daemon config/zookeeper.properties",
        Answered("type: nohup odradek zookeeper config/zookeeper.properties"),
    ),
    ("odradek systemctl start zookeeper", Answered("type: odradek local start")),
    ("odradek systemctl start kafka", Answered("type: odradek local start")),
    (
        (
            'KAFKA_JMX_OPTS="-Djava.rmi.server.hostname=127.0.0.1 -Dcom.sun.management.jmxremote"'
            " kafka-server-start.sh config/server0.properties"
        ),
        Serves(("hint: KAFKA_JMX_OPTS has no effect", READY)),
    ),
    (
        (
            "kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group"
            " test-consumer"
        ),
        Answered("odradek consumer-groups --list shows all"),
    ),
    (
        (
            "kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group"
            " kittys_junk_shop"
        ),
        Accepted("LAG"),
    ),
    # Chapter 10
    (
        "odradek keytool -genkey -keystore broker.jks -alias localhost",
        Answered("odradek certs create"),
    ),
    ("odradek openssl req -new -x509 -keyout ca.key -out ca.crt", Answered("odradek certs create")),
    (
        (
            "kafka-console-producer.sh --broker-list localhost:9092 --topic T --producer.config"
            " ssl.properties"
        ),
        Answered("client.jks for ssl.truststore.location: the file cannot be read"),
    ),
    (
        (
            "kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic T"
            " --consumer.config ssl.properties"
        ),
        Answered("client.jks for ssl.truststore.location: the file cannot be read"),
    ),
    (
        (
            'KAFKA_OPTS="-Djava.security.auth.login.config=jaas.conf'
            ' -Djava.security.krb5.conf=krb5.conf"'
            " kafka-server-start.sh config/server0.properties"
        ),
        Serves(("hint: KAFKA_OPTS has no effect", READY)),
    ),
    (
        (
            "kafka-console-producer.sh --broker-list localhost:9092 --topic T --producer.config"
            " client.properties"
        ),
        Accepted("", stdin="from a file\n"),
    ),
    (
        (
            "kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic T --from-beginning"
            " --consumer.config client.properties --max-messages 1"
        ),
        Accepted("\n"),
    ),
    (
        (
            "kafka-acls --authorizer-properties zookeeper.connect=localhost:2181 --add"
            " --allow-principal User:Franz --allow-principal User:Hemingway --operation Read"
            " --operation Write --topic clueful_secrets"
        ),
        Accepted("clueful_secrets"),
    ),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --add-config"
            f" 'producer_byte_rate=1048576,consumer_byte_rate=10485760' {CLIENTS}"
        ),
        Accepted("Completed updating config for client clueful."),
    ),
    (f"kafka-configs.sh {ZOOKEEPER} --describe {CLIENTS}", Accepted("client-id 'clueful'")),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --delete-config"
            f" 'producer_byte_rate,consumer_byte_rate' {CLIENTS}"
        ),
        Accepted("Completed updating config for client clueful."),
    ),
    (
        f"kafka-configs.sh {ZOOKEEPER} --alter --add-config 'request_percentage=100' {CLIENTS}",
        Accepted("Completed updating config for client clueful."),
    ),
    # Appendix A
    ("odradek jps", Answered("type: odradek local status")),
    ("odradek confluent start", Answered("type: odradek local start")),
    # Names that the documents mention without a whole line
    ("odradek kafka-schema-registry-start x.properties", Answered("there is no file x.propert")),
    ("odradek schema-registry-start x.properties", Answered("there is no file x.properties")),
    ("odradek ksql", Answered("start it with odradek sql-server")),
    ("odradek rest-start x.properties", Answered("there is no file x.properties")),
    ("odradek mirror-maker", Answered("odradek archive")),
    ("odradek run-class", Answered("kafka-run-class kafka.tools.GetOffsetShell")),
    ("zookeeper-shell", Answered("HOST:PORT|DIR is needed")),
    ("odradek connect-distributed worker.properties", Answered("there is no file worker.prop")),
    ("kafka-run-class kafka.tools.GetOffsetShell --topic T --time -1", Accepted("T:0:")),
    ("kafka-get-offsets.sh --topic T --replicas", Accepted("LOG-END-OFFSET")),
]
