"""ksqlDB's language: text to statements.

    dialect      words and symbols; a cursor over them, as a subclass of sqlglot's parser
    expressions  expressions, as sqlglot's tree
    types        types of columns
    queries      SELECT
    parser       all other statements
    statements   the classes of statements
    variables    ${name} in statements

The tree of an expression is sqlglot's, so that it can be written in other dialects: Spark's, for
one. The grammar is our own (docs/decisions/0098-sql-language.md).
"""
