"""What statements do: the catalogue of streams and tables, and queries that run.

catalogue    streams, tables, types and queries by name: pure state
definitions  a CREATE statement as a stream or table, with every check
persistent   a query that writes a stream or table, as a plan
commands     the topic that has all statements which change the catalogue
engine       carries statements out
running      the persistent queries of this server
looking      statements that change nothing: SHOW, DESCRIBE, EXPLAIN
topics       the topics of streams and tables
inserting    INSERT VALUES
answering    queries whose rows someone waits for: push and pull
entities     answers as ksqlDB's REST interface writes them
"""
