"""What all connectors for change data capture share.

    envelope.py       the records of a table: before, after, source, op, tombstones, changed keys
    logical_types.py  the schemas that Debezium has for times, numbers, bits, JSON and so on
    settings.py       the settings that all of them have, under Debezium's names
    filters.py        which tables and columns are captured, and what the key of a table is
    steps.py          what was read from the source and is not yet stored in the topic
    chunks.py         the progress of a snapshot that is read in pieces while changes stream
    signals.py        what users ask for while the connector runs
    heartbeats.py     records that say that the connector is alive
    transactions.py   the records and blocks that say where transactions begin and end

Nothing here knows a database.
"""
