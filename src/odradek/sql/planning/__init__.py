"""Statements with types: what names mean, what expressions compute, and queries as plans.

scope        the columns that an expression can name, and where they are in a row
casting      values from one type to another: CAST, and what is done without being asked
operators    arithmetic and comparison
expressions  an expression as a Python function of a row
constructing arrays, maps and structs in expressions
calls        functions in expressions: which signature fits
sources      a stream or table as the catalogue knows it, and its codecs
selecting    the columns of a SELECT, with their names
keys         what a column of a key may be
placing      in which partition records are within a query
joining      joins
grouping     GROUP BY and aggregates
queries      a query as a plan of `odradek.streams`
"""
