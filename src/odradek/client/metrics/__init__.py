"""The metrics of a client: Kafka's names, and how they are pushed to brokers (KIP-714).

    counting   plain counters, which connections, producers and consumers increment
    catalogue  one declaration for each metric: name, group, and which figures it is computed from
    figures    reads the counters of a client
    view       computes the metrics from them, when somebody asks
    pusher     pushes them, if a broker asks for them
    reference  the page of all metrics

Counting costs an addition for each request and each batch, and nothing for a record. Everything
else is imported when `metrics()` is called, or when a broker offers to take metrics.
"""
