"""Generations of clients against one broker: one story each, one table in the docs."""
