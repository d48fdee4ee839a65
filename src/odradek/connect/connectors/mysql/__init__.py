"""Change data capture from the binary logs of MySQL and MariaDB.

connector.py, settings.py    the connectors, under Debezium's names
task.py, positions.py        a snapshot and the changes; where the task is
snapshots.py                 the rows that are there, in chunks as of a place in the log
log_reader.py                records of the events of the log
statements.py, schema_changes.py    definitions that change
tables.py, columns.py, column_types.py    what is captured, and what becomes of its values
log_stream.py, server.py     connections to a server
events.py, table_maps.py, row_values.py, json_values.py, decimals.py, gtids.py
                             the formats of the log: bytes to values, without a socket
select_values.py             the same values from the text of a SELECT
"""
