"""The REST interface, as ksqlDB has it.

service    the server: the engine and its endpoints
bodies     what requests say
results    rows as the formats of /query and /query-stream have them
"""
