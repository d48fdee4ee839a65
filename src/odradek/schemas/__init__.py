"""Records with schemas: Avro, JSON and Protobuf as Confluent's serialisers frame them.

    framing          a zero byte, the schema's id, for Protobuf which message, then the payload
    registry_client  schemas by id or by subject, from a registry over HTTP, each asked for once
    avro, json_schema, protobuf
                     a codec each, and the type that a column of such values has

Pure but for the registry, and without Spark. The extra `schemas` brings the libraries; each is
imported only by the format that needs it.
"""
