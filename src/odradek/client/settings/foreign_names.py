"""Options that other Kafka clients have under another name, and what to write here instead.

A program or a dict of settings that was written for aiokafka, kafka-python or confluent-kafka
(librdkafka) is answered with the line to type, where the nearest spelling would mislead.
"""

from typing import Final

_CA_FILE: Final = "write ssl.truststore.location; a PEM file is recognised"
_KEY_FILE: Final = (
    "write ssl.keystore.location, a PEM file with the key and the certificates (cat key.pem"
    " certificate.pem > client.pem)"
)
_KERBEROS: Final = (
    "write it in sasl.jaas.config: com.sun.security.auth.module.Krb5LoginModule required"
    ' useKeyTab=true keyTab="..." principal="...";'
)
_TOKENS: Final = "write sasl.login.callback.handler.class, a function that returns the token"
_INSTEAD: Final = {
    "auto.commit.enable": "write enable.auto.commit",
    "batch.num.messages": "batches are limited by bytes: write batch.size",
    "compression.codec": "write compression.type",
    "fetch.message.max.bytes": "write max.partition.fetch.bytes",
    "fetch.wait.max.ms": "write fetch.max.wait.ms",
    "max.batch.size": "write batch.size",
    "max.in.flight": "write max.in.flight.requests.per.connection",
    "max.in.flight.requests": "write max.in.flight.requests.per.connection",
    "message.max.bytes": "write max.request.size",
    "message.send.max.retries": "write retries",
    "message.timeout.ms": "write delivery.timeout.ms",
    "metadata.broker.list": "write bootstrap.servers",
    "partitioner": (
        "write partitioner.class; librdkafka's murmur2_random is called default here, and need not"
        " be set"
    ),
    "queue.buffering.max.kbytes": "write buffer.memory, in bytes",
    "queue.buffering.max.messages": "the buffer is limited by bytes: write buffer.memory",
    "queue.buffering.max.ms": "write linger.ms",
    "rebalance.timeout.ms": "write max.poll.interval.ms",
    "request.required.acks": "write acks",
    "socket.timeout.ms": "write request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "write metadata.max.age.ms",
    "topics": 'write Consumer("topic", group_id="...") or call subscribe()',
    # TLS and SASL.
    "enable.ssl.certificate.verification": (
        "leave it out: certificates are always verified; name the authority in"
        " ssl.truststore.location"
    ),
    "oauth.cb": f"{_TOKENS}; it is called without arguments",
    "sasl.kerberos.domain.name": (
        "leave it out: the host of a broker's principal is that of its advertised address"
    ),
    "sasl.kerberos.keytab": _KERBEROS,
    "sasl.kerberos.name": "write sasl.kerberos.service.name",
    "sasl.kerberos.principal": _KERBEROS,
    "sasl.mechanisms": "write sasl.mechanism",
    "sasl.oauth.token.provider": _TOKENS,
    "sasl.oauthbearer.client.id": "write sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "write sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.config": f"write sasl.jaas.config, or {_TOKENS}",
    "sasl.oauthbearer.extensions": 'write extension_name="value" in sasl.jaas.config',
    "sasl.oauthbearer.method": "leave it out: sasl.oauthbearer.token.endpoint.url is enough",
    "sasl.plain.password": "write sasl.password",
    "sasl.plain.username": "write sasl.username",
    "ssl.ca.location": _CA_FILE,
    "ssl.ca.pem": "write ssl.truststore.certificates",
    "ssl.cafile": _CA_FILE,
    "ssl.certfile": _KEY_FILE,
    "ssl.certificate.location": _KEY_FILE,
    "ssl.certificate.pem": "write ssl.keystore.certificate.chain",
    "ssl.check.hostname": (
        "host names are checked; ssl.endpoint.identification.algorithm= (empty) turns that off"
    ),
    "ssl.ciphers": "write ssl.cipher.suites",
    "ssl.crl.location": "revocation lists are not read: give the program an ssl.context",
    "ssl.crlfile": "revocation lists are not read: give the program an ssl.context",
    "ssl.key.location": _KEY_FILE,
    "ssl.key.pem": "write ssl.keystore.key",
    "ssl.keyfile": _KEY_FILE,
    "ssl.password": "write ssl.key.password",
    # What is not needed, or is done by a call.
    "api.version": "leave it out: versions are negotiated with each broker",
    "api.version.request": "leave it out: versions are negotiated with each broker",
    "broker.version.fallback": "leave it out: versions are negotiated with each broker",
    "default.topic.config": "write its settings beside the others, such as acks",
    "consumer.timeout.ms": "call poll(timeout_ms=...)",
    "dr.cb": "give send() the function: send(topic, value, on_delivery=function)",
    "enable.auto.offset.store": (
        "set enable.auto.commit=false and commit() the offsets that were handled"
    ),
    "enable.partition.eof": "compare position() with end_offsets()",
    "error.cb": "errors are raised by the calls; the rest is logged by logger odradek.client",
    "logger": "use logging.getLogger('odradek.client')",
    "loop": "leave it out: the running event loop is used",
    "on.delivery": "give send() the function: send(topic, value, on_delivery=function)",
    "statistics.interval.ms": "leave it out: there are no statistics callbacks",
    "stats.cb": "leave it out: there are no statistics callbacks",
}


def instead_of(name: str) -> str:
    """Returns the end of a sentence about an option of another client, or an empty string."""
    dotted = name.replace("_", ".")
    answer = _INSTEAD.get(dotted)
    return "" if answer is None else f"; {answer}"
