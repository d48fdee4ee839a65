"""Odradek: the Kafka protocol and platform in Python."""

__version__ = "0.1.0"
