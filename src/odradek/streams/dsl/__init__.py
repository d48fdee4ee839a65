"""Streams and tables in Python, after Kafka Streams. Users import from `odradek.streams`.

builder    where a topology begins, and what it becomes
streams    `Stream`
tables     `Table`
grouped    records in groups, windowed or not, and what can be computed of them
"""
