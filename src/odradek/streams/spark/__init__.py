"""Runs plans on Spark, exactly once.

engine      the side of the program that has the queries: their processes, and the process of Spark
query_host  the process of one query, which works in the turns that Spark gives it
own_runner  a query with a Spark of its own; `own_query` is what that runs
given       what a process gets to know of its query
"""
