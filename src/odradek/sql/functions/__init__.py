"""All functions of the language, in one table (`table.FUNCTIONS`).

declaring    how a function is declared: name, signatures, what nulls do
numbers, strings, bytes_, collections_, json_, times, urls, nulls
             scalar functions, by subject
patterns     scalar functions of regular expressions
aggregates   aggregate functions, with how a row is undone and how two states are merged
deviations   aggregate functions of deviations
tabular      table functions: several rows of one
table        the table
reference    docs/reference/sql-functions.md
"""
