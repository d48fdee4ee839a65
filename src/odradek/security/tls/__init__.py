"""TLS for everything that talks over sockets: listeners, brokers among each other, clients, HTTP.

`settings` reads Kafka's `ssl.*` properties into a `TlsSettings`. `stores` reads keys and
certificates from PEM, PKCS12 and JKS. `contexts` makes `ssl.SSLContext` objects from both.
`distinguished_names` and `principal_mapping` say which principal a client certificate stands for.
TLS 1.2 and 1.3 are spoken, and nothing older.
"""
