"""Records with schemas: Avro, JSON and Protobuf as Confluent's serialisers frame them.

    framing          a zero byte, the schema's id, for Protobuf which message, then the payload
    registry_client  a client of the schema registry's HTTP interface, with a cache
    avro, json_schema, protobuf
                     a codec each, and the type that a column of such values has
    parsed           a schema as a registry sees it: parsed, printed, normalised
    compatibility    the seven levels: which schema may follow which

Only the registry client does I/O, and nothing here needs Spark. The extra `schemas` installs the
libraries; each is imported only by the format that needs it.
"""
