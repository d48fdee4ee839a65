"""The management port of a broker: metrics, health, status and MBeans over HTTP.

    port         opens the port, and knows what the broker is doing
    http_server  HTTP/1.1, GET alone
    endpoints    which path is answered by what
    health       is the broker ready, and if not, why
    scrape       runs the collectors, and renders their samples
    collectors/  from the parts of a broker to samples, one module for each subject
    lag          how far groups lag behind, in records and in seconds
    jolokia      the same samples as MBeans, in Jolokia's JSON

A broker without `management.listener` imports none of this.
"""
