"""The REST interface of a worker, as Kafka Connect has it.

surface       what all endpoints share: bodies, errors, and passing changes on to the leader
connectors    make, change, look at, pause, restart and delete connectors and their tasks
offsets       how far a connector has come, seen and set
plugins       what is installed, its settings, and validation
admin         version, health, log levels, and the log of a connector
definitions   declared settings as JSON
"""
