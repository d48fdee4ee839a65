"""Work that Spark gives turns to: one streaming query, and a process for each task.

Connectors (`odradek.connect.lanes`) and queries (`odradek.streams.spark`) use it. A micro-batch of
the query is a turn of every task; records do not go through Spark here
(docs/decisions/0077-turns-of-tasks.md).

The owner of the tasks is a Connect worker, or a program with queries.

messages         the messages between the processes
shared_lane      what all tasks of an owner share: it starts the others
task_processes   the owner's side: starts the processes of tasks, and gets their messages
zygote           the process from which these are forked
hosting          what each of them does first, and how its stack is seen
turns            when a task may work
driver           the process that runs Spark, and `driver_process`, which starts it
lane_source      the data source of the query: its input is the list of tasks
spark_daemon     the process from which Spark forks its Python workers
backoff          how long to wait before a restart
"""
