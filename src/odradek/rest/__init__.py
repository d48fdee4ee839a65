"""The REST proxy: topics, records, groups and settings of a cluster over HTTP.

    service     the endpoints of both versions, put together
    settings    kafka-rest.properties
    links       absolute URLs and resource names in answers
    formats     records in requests and answers: binary, JSON, text, and with schemas
    producing   records of a request to the caller's producer
    reading     records by offset, time and key, and as they come (ours)
    v2/         Confluent's version 2: produce in five formats, consumer instances
    v3/         Confluent's version 3: resources with links, streaming produce

It acts as its caller (`services`), so it may do what the caller may do, and works against any
Kafka. Only consumer instances of version 2 are state; everything else is forgotten after each
answer, so several proxies behind a load balancer need no agreement.
"""
