"""GSSAPI (RFC 4752): log-in by Kerberos. Not built yet: `new_exchange` says so in one line."""

from collections.abc import Mapping

from odradek.security.sasl.client.exchange import ClientExchange, SaslFailed


def new_exchange(service: str, host: str, options: Mapping[str, str]) -> ClientExchange:
    """Returns the exchange of one log-in at `service@host`."""
    raise SaslFailed(f"no Kerberos here: {service}@{host} cannot be asked")
