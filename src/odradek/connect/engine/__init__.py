"""What runs the tasks of connectors.

engine           the interface between the worker and what runs tasks
process_engine   runs tasks in the worker's process, without Spark
context          what a worker gives to its engine: clients, offsets, converters
source_runner    a source task: records and offsets in one transaction
sink_runner      a sink task: write, then commit
former_member    takes a sink's former self out of its group
record_path      converters, transforms, and records that fail
offset_store     the offsets of all sources, in Kafka Connect's topic
"""
