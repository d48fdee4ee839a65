"""Change data capture from the change streams of MongoDB.

connector.py, settings.py    the connector, under Debezium's names
task.py, positions.py        a snapshot and the changes; where the task is
source.py                    what is asked of the servers
records.py, documents.py     the records of changes, and documents as JSON
"""
