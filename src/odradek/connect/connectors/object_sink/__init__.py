"""Records as objects in a store: S3 and what speaks its protocol, or a directory.

sink         the connectors, under the names of Confluent and Aiven
settings     what both have in common: a `Plan`
confluent, aiven    what users set, in the words of either
task         gathers records, and writes an object when there are enough
layout       the names of objects: directories by partition, field or time, and the first offset
formats      what is in an object: JSON, CSV or bytes; what a format is
columnar     Parquet and ORC, through Arrow
avro         Avro files
stores       where objects are put
"""
