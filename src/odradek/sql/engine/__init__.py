"""What statements do: the catalogue of streams and tables, and queries that run.

catalogue    streams, tables, types and queries by name: pure state
definitions  a CREATE statement as a stream or table, with every check
persistent   a query that writes a stream or table, as a plan
commands     the topic that has all statements which change the catalogue
engine       carries statements out
changes      those that change something, before and after the command topic
looking      those that change nothing: SHOW, DESCRIBE, EXPLAIN
access       with whose rights a statement is carried out
sessions     what SET and DEFINE have said
running      the persistent queries of this server
topics       the topics of streams and tables
inserting    INSERT VALUES
answering    what the answer of a query is
pushing      queries that go on
pulling      queries that end: by key, or from views
views        rows in memory
entities     answers as ksqlDB's REST interface writes them
"""
