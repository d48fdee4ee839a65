"""Converters: the keys, values and headers of records to bytes, and back.

converter         what every converter does
primitives        text, bytes and numbers, as Kafka's serializers write them
json_converter    JSON, with the schema beside the value or without
json_schemas      schemas as Kafka Connect writes them into JSON
registry_converter
                  what the three formats with a schema registry have in common
avro_, json_schema_ and protobuf_converter
                  one module for each of them, beside its schemas (`_schemas`, `_names`), what it
                  writes (`_writing`) and what it reads (`_reading`); they need the extra `schemas`
by_schema         what was made of a schema, kept
simple_headers    headers as text from which their types are guessed (SimpleHeaderConverter)
"""
