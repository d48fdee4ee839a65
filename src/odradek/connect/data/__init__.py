"""Values and their schemas, as Kafka Connect has them.

schemas      the schema of a value
values       whether a value fits its schema, and the schema of a value that has none
"""
