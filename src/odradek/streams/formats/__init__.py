"""Keys and values as bytes: for the DSL one value, for SQL the values of several columns.

primitives   numbers, text, JSON and bytes, as Kafka's own serializers write them
windowed     keys of windows
columns      rows as JSON, delimited text, or a primitive
"""
