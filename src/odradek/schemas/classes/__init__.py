"""Python classes written from schemas: `odradek schema generate`.

model      what a module of classes has, whatever it came from
naming     names of schemas as names of Python
from_avro, from_json_schema, from_protobuf
           a model of a schema, one module for each format
writing    a model as Python text: dataclasses, pydantic models or attrs classes
"""
