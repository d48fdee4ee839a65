"""Kafka's messages, one module per API, each with its request and its response.

Field and class names are Kafka's own. `odradek.protocol.apis` is the table of them all,
and imports a module when its first message is needed.
"""
