"""The schema registry: schemas under subjects, with Confluent's interface, on any Kafka.

    names          subjects and the contexts that they are in
    records        the records of the topic `_schemas`, in Confluent's format
    state          what the records add up to; `apply` is the only way to change it
    decisions      what a request that changes something writes, and when it is refused
    judging        parses schemas and compares versions, heavy ones in another process
    schema_log     the topic `_schemas`: reads it, and writes to it as the one primary
    election       which instance is the primary
    primary        carries out changes one batch after the other
    api/           the HTTP endpoints
    settings       the properties file
    server         all of it together, as one process

The state of a registry is the topic's content, and the primary is its only writer
(docs/decisions/0060-registry-log.md). The broker is reached through the client alone, so the
registry works with any Kafka.
"""
