"""Says in words of settings why TLS failed: what OpenSSL says helps only those who know OpenSSL."""

import re
import ssl
from typing import Final

from odradek.client.errors import BrokerUnreachable, ClientError, ConnectionFailed, TlsFailed

# X509_V_ERR_* of OpenSSL.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_HOSTNAME_MISMATCH: Final = 62
_IP_MISMATCH: Final = 64
_TRUST: Final = "set ssl.truststore.location to a file with the certificate of the authority"
_KEYSTORE: Final = (
    "the broker wants a certificate of the client: set ssl.keystore.location to a file with the"
    " client's key and certificate"
)
_PLAIN: Final = (
    "it does not speak TLS: set security.protocol=PLAINTEXT (SASL_PLAINTEXT with a log-in), or name"
    " the port of a TLS listener"
)
_NOT_TRUSTED: Final = (
    "the broker does not trust the client's certificate, or the client has shown none: its issuer"
    " must be in the broker's ssl.truststore, and ssl.keystore.location must name it here"
)
_NOTHING_SHARED: Final = (
    "there is no cipher suite that both sides accept (ssl.cipher.suites), or the broker wants a"
    " certificate of the client (ssl.keystore.location)"
)
# What OpenSSL names its reasons, and what to say. The first that matches counts.
_REASONS: Final = (
    (re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|HTTPS_PROXY"), _PLAIN),
    (re.compile("CERTIFICATE_REQUIRED"), _KEYSTORE),
    (
        re.compile("ALERT_UNKNOWN_CA|CERTIFICATE_UNKNOWN|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE"),
        _NOT_TRUSTED,
    ),
    (re.compile("CERTIFICATE_EXPIRED"), "the client's certificate has expired: renew it"),
    (
        re.compile("CERTIFICATE_REVOKED"),
        "the client's certificate was revoked: get another one",
    ),
    (
        re.compile("PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS_AVAILABLE"),
        "the broker speaks none of the versions in ssl.enabled.protocols",
    ),
    (
        re.compile("HANDSHAKE_FAILURE|NO_SHARED_CIPHER|NO_CIPHERS"),
        _NOTHING_SHARED,
    ),
)


def why_tls_failed(error: BaseException, host: str, port: int) -> ClientError | None:
    """Returns the error for users; None if it has nothing to do with TLS."""
    address = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"the certificate of {address} {_not_verified(error, host)}")
    if isinstance(error, ssl.CertificateError):
        return TlsFailed(f"the certificate of {address} is not for {host}: {error}")
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | ConnectionAbortedError):
        return _closed(address)
    if isinstance(error, ssl.SSLError):
        name = (error.reason or str(error)).upper()
        for pattern, advice in _REASONS:
            if pattern.search(name):
                return TlsFailed(f"TLS with {address} failed: {advice}")
        said = (error.reason or str(error)).replace("_", " ").lower()
        return TlsFailed(f"TLS with {address} failed: {said}")
    return None


def _closed(address: str) -> BrokerUnreachable:
    """The error of a peer that closes instead of answering; it may also be a broker that stops, so
    it is retried."""
    return ConnectionFailed(
        f"{address} closed the connection during the TLS handshake: is it a TLS listener? If not,"
        " set security.protocol=PLAINTEXT, or SASL_PLAINTEXT"
    )


def _not_verified(error: ssl.SSLCertVerificationError, host: str) -> str:
    match error.verify_code:
        case code if code in (_HOSTNAME_MISMATCH, _IP_MISMATCH):
            return (
                f"is not for {host}: connect to a name that is in it, or give the broker a"
                " certificate with this name. ssl.endpoint.identification.algorithm= (empty) turns"
                " the check off"
            )
        case code if code == _EXPIRED:
            return "has expired: renew it at the broker"
        case code if code == _NOT_YET_VALID:
            return "is not valid yet: compare the clocks of this machine and of the broker"
    said = error.verify_message or "it was not signed by a known authority"
    return f"is not trusted ({said}): {_TRUST} that signed it"
