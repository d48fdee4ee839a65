"""The reference executor: runs a plan record by record, in plain Python.

    executor      delivers records to the operators of their partition
    operators     filter, map, flat map, group, sink: operators without state
    aggregates    aggregates, over streams and tables, plain and windowed; sessions
    stream_joins  joins of two streams, and of a stream with a table
    table_joins   joins of two tables, by key and by foreign key
    suppressing   holding results back until a window is closed
    processors    processors of users, with stores and punctuators
    stores        state in memory, with a changelog

An operator works for one partition. It has its own stream time: the largest timestamp it has seen.
"""
