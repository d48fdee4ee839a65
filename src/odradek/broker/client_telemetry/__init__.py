"""The metrics of clients, which push them to brokers (KIP-714).

    subscriptions  which clients push which metrics, and how often: from the cluster's settings
    instances      the clients that have asked, and whether a push of theirs is accepted
    series         what they have pushed lately, for the management port
    forwarder      sends it on to a collector of OpenTelemetry
    receiver       what the handlers of the two APIs call

A broker without a management port and without `odradek.telemetry.otlp.endpoint` has no use for
metrics of clients: it does not offer the APIs, so clients do not ask, and it imports none of this.
"""
