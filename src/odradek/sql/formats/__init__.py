"""Formats with a schema registry: AVRO, PROTOBUF, JSON_SR; and PROTOBUF_NOSR.

types        columns as Connect's schemas, and values both ways
names        the names of records in a schema, as ksqlDB gives them
registered   the codecs of rows
printing     values as text, for PRINT
catalogue    which codec a format has
inferring    columns that come from the registry, and what statements register
memory       a registry in memory, for tests of statements
"""
