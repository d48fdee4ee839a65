"""Formats with a schema registry: AVRO, PROTOBUF, JSON_SR; and PROTOBUF_NOSR.

types        columns as Connect's schemas, and values both ways
names        the names of records in a schema, as ksqlDB gives them
registered   the codecs of rows
catalogue    which codec a format has; columns that come from the registry
"""
