"""A broker of its own for attacks before the log-in: every kind of listener, and nobody who could
get in.

    inside      PLAINTEXT, for the canary and for whoever looks at the state
    ssl         TLS, a client certificate is required
    sasl        SASL_PLAINTEXT with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER
    sasl_ssl    SASL_SSL with the same mechanisms

The authorizer is on, and `User:ANONYMOUS` of the listener `inside` is a super user: a bug that lets
an attacker pass for nobody would let him do everything, and be noticed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.broker_process import (
    BrokerProcess,
    free_ports,
    start_odradek,
    wait_until_ready,
)
from odradek.security.certificates import LOCAL_HOSTS, CertificateDirectory
from odradek.world import OsDisk, SystemClock

USER, PASSWORD = "alice", "alice-secret-4711"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES: Final = "org.apache.kafka.common.security."
# A failed log-in is answered this late. Kafka's 100 ms would only make a run longer.
_DELAY_MS: Final = 5
# How long a log-in may take. It is short, so that inputs that are not whole end soon.
_LOG_IN_MS: Final = 500


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """The process, the port of each listener, and the certificate to trust."""

    process: BrokerProcess
    ports: dict[str, int]
    authority: str
    client_keystore: str

    @property
    def pid(self) -> int:
        return self.process.process_id


@contextmanager
def secured_broker(directory: Path, **more: str) -> Iterator[SecuredBroker]:
    """Runs the broker. `more` are settings with `__` for dots."""
    certificates = CertificateDirectory(OsDisk(), SystemClock(), str(directory / "certs"))
    certificates.create_authority()
    keystore = certificates.create("broker", LOCAL_HOSTS, 30)
    client = certificates.create("client", LOCAL_HOSTS, 30)
    keys = directory / "jwks.json"
    # A key that signs nothing: every token is refused.
    keys.write_text(
        json.dumps({"keys": [{"kty": "RSA", "kid": "none", "n": "sXch" + "A" * 338, "e": "AQAB"}]})
    )
    ports = dict(zip(("ssl", "sasl", "sasl_ssl"), free_ports(3), strict=True))
    settings = {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority_path,
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "odradek",
        "connection.failed.authentication.delay.ms": str(_DELAY_MS),
        "odradek.authentication.timeout.ms": str(_LOG_IN_MS),
        # The records of the canary are of 1970.
        "log.retention.ms": "-1",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **{name.replace("__", "."): text for name, text in more.items()},
    }
    lines = {
        "plain": f'{_MODULES}plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        "scram-sha-256": f"{_MODULES}scram.ScramLoginModule required;",
        "scram-sha-512": f"{_MODULES}scram.ScramLoginModule required;",
        "oauthbearer": f"{_MODULES}oauthbearer.OAuthBearerLoginModule required;",
    }
    for listener in ("sasl", "sasl_ssl"):
        for mechanism, line in lines.items():
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = line
    (inside,) = free_ports(1)
    named = [f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items()]
    settings["listeners"] = ",".join([f"PLAINTEXT://127.0.0.1:{inside}", *named])
    process = start_odradek(directory / "broker", settings, port=inside)
    try:
        wait_until_ready(process)
        ports["inside"] = inside
        yield SecuredBroker(process, ports, certificates.authority_path, client)
    finally:
        process.stop()
