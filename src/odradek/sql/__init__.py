"""SQL over topics: ksqlDB's language, and a server with its REST interface.

    language   statements and expressions: the parser
    functions  all functions, in one table
    planning   types of expressions, and queries compiled to the plan of `odradek.streams`
    engine     streams, tables and queries; persistent queries with exactly-once results
    api        the REST interface

docs/sql.md is the guide, docs/decisions/0097-sql-and-streams.md says why it is built so.
"""
