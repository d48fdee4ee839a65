"""Tables of databases as sources and sinks, as Aiven's JDBC connectors have them.

urls               where a database is: connection.url in the form of JDBC
names              names of tables, and SQL text with places for values
dialect            what a database must tell and do: the interface, and which one a URL means
sqlite, postgres, mysql    the databases, each through its driver for Python
connection         a connection that is made when it is needed, and made again when it was lost
source             the source connector: which tables there are, and who reads them
source_task        reads several tables, each when its time has come
table_reader       reads one table or query in one of the modes
range_reader       the modes incrementing, timestamp and timestamp+incrementing
bulk_reader        the mode bulk
sink               the sink connector and its task: batches, transactions, records that fail
rows               which columns a record fills
tables             whether a table fits the records, and how it is made or changed so that it does
"""
