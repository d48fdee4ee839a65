"""Change data capture from the change streams of MongoDB.

connector.py, settings.py    the connector, under Debezium's names
task.py, positions.py        a snapshot and the changes; where the task is
source.py                    what is asked of the servers
stream_task.py               what both tasks that read change streams have in common
event_*.py                   the source of MongoDB's own connector: change events as they are
sink*.py                     its sink
records.py, documents.py     the records of changes, and documents as JSON
"""
