"""Kafka's messages, one module per API, each with its request and its response.

Field and class names are Kafka's own. Each module ends with the declaration of its API
(`odradek.protocol.apis`). A new module in this package is a new API; there is no list to add it to.
"""
