"""What every HTTP service of the platform shares: it acts as its caller, and never as itself.

    identity        who asks: a password, a token or a certificate of the request
    client_pool     a bounded number of Kafka clients for each caller, checked again and again
    kafka_problems  errors of Kafka as HTTP statuses, with Confluent's error codes
    settings        the properties files of services, with Confluent's names
    with_registry   settings of services that ask a schema registry too
    metrics         requests by endpoint and status, for Prometheus
    forwarding      passes a request on to another instance of the service
    permissions     asks the brokers what a caller may do
    group           membership in a group of instances
    running         starts a service, says its URL, and drains it at the end

A service logs in to the brokers with what its caller showed. So the brokers decide, by their ACLs,
roles and quotas, what the caller may do; their audit log names the caller; and a defect of a
service gives nobody more rights than they have. Services reach brokers by the protocol alone, so
they work against any Kafka. It needs the extra `web`.
"""
