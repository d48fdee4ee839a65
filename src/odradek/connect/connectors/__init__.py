"""Connectors, and what every connector does.

connector        sources and sinks, and their tasks: the interface
positions        how far a source was read
file_source      lines of a file, as they are written
file_sink        values as lines of a file
cdc/             what the connectors for change data capture share
postgres/        change data capture from PostgreSQL
"""
