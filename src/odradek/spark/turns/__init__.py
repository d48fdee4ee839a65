"""Work that Spark gives turns to: one streaming query, and a process for each task.

Connectors (`odradek.connect.lanes`) and queries (`odradek.streams.spark`) use it. A micro-batch of
the query is a turn of every task; records do not go through Spark here
(docs/decisions/0077-turns-of-tasks.md).

messages         what the processes say to each other
task_processes   the side of whoever has the tasks: starts processes, hears what they say
zygote           the process that they are forked from
hosting          what each of them does first, and how its stack is seen
turns            when a task may work
driver           the process that has Spark, and `driver_process`, which starts it
lane_source      the data source of the query: its input are the tasks
spark_daemon     the process that Spark forks its Python workers from
backoff          how long what has failed waits
"""
