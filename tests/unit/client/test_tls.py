"""Connections with TLS: whom a client trusts, what it shows, and what it says when that fails."""

import os
import ssl
from pathlib import Path

import pytest

from odradek.client import Connection
from odradek.client.errors import ClientError, ConnectionFailed, NotABroker, TlsFailed, is_retriable
from odradek.client.security import ClientSecurity
from odradek.client.settings import AdminSettings
from odradek.client.tls_failures import why_tls_failed
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.world import Randomness
from tests.certificates import PASSWORD, Authority, Issued
from tests.unit.client.mini_cluster import MiniCluster


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def server_context(issued: Issued, directory: Path, trusted: Authority | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.keystore(directory / "broker.pem"))
    if trusted is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=trusted.pem)
    return context


async def ask(cluster: MiniCluster, **settings: object) -> None:
    """Connects by `ssl_...` settings and sends a request."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    made = AdminSettings.from_config({"security.protocol": "SSL", **named})
    security = ClientSecurity(made, Randomness(1))
    connection = await Connection.open("127.0.0.1", cluster.ports[1], security=security)
    try:
        answer = await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        assert answer.cluster_id == "mini"
    finally:
        connection.close()
        await connection.wait_closed()


async def refused(cluster: MiniCluster, **settings: object) -> ClientError:
    with pytest.raises(ClientError) as caught:
        await ask(cluster, **settings)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
async def test_both_sides_show_certificates(
    authority: Authority, tmp_path: Path, kind: str
) -> None:
    tls = server_context(authority.issue("broker"), tmp_path, authority)
    cluster = await MiniCluster().start(tls)
    password = {} if kind == "pem" else {"ssl_truststore_password": PASSWORD}
    own = {} if kind == "pem" else {"ssl_keystore_password": PASSWORD}
    trusted = authority.truststore(tmp_path / f"ca.{kind}")
    shown = authority.issue("ada").keystore(tmp_path / f"ada.{kind}")
    await ask(
        cluster,
        ssl_truststore_location=str(trusted),
        ssl_keystore_location=str(shown),
        **password,
        **own,
    )
    # Servers of asyncio close without saying why; that Kafka says it is tested below.
    fault = await refused(cluster, ssl_truststore_location=str(trusted), **password)
    assert "ssl.keystore.location" in str(fault)
    await cluster.stop()


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "wants a certificate of the client"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "does not trust the client's certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not trust the client's certificate"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "has expired: renew it"),
        ("WRONG_VERSION_NUMBER", "set security.protocol=PLAINTEXT"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "ssl.enabled.protocols"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "ssl.cipher.suites"),
        ("SOMETHING_NEW", "failed: something new"),
    ],
)
def test_what_openssl_says_becomes_a_setting(reason: str, said: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    fault = why_tls_failed(error, "localhost", 9093)
    assert isinstance(fault, TlsFailed)
    assert said in str(fault)
    assert why_tls_failed(OSError("no route"), "localhost", 9093) is None


async def test_a_program_may_bring_its_own_context(authority: Authority, tmp_path: Path) -> None:
    cluster = await MiniCluster().start(server_context(authority.issue("b"), tmp_path, None))
    context = ssl.create_default_context(cadata=authority.pem)
    await ask(cluster, ssl_context=context)
    await cluster.stop()


async def test_a_broker_of_an_unknown_authority_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    cluster = await MiniCluster().start(server_context(authority.issue("b"), tmp_path, None))
    fault = await refused(cluster, ssl_truststore_certificates=Authority("other").pem)
    assert isinstance(fault, TlsFailed)
    assert not is_retriable(fault)
    assert "set ssl.truststore.location" in str(fault)
    await cluster.stop()


async def test_the_host_must_be_in_the_certificate(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("b", hosts=("elsewhere.example",))
    cluster = await MiniCluster().start(server_context(issued, tmp_path, None))
    fault = await refused(cluster, ssl_truststore_certificates=authority.pem)
    assert isinstance(fault, TlsFailed)
    assert "is not for 127.0.0.1" in str(fault)
    await ask(
        cluster,
        ssl_truststore_certificates=authority.pem,
        ssl_endpoint_identification_algorithm="",
    )
    await cluster.stop()


async def test_an_expired_certificate_is_said_to_be(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("b", expired=True)
    cluster = await MiniCluster().start(server_context(issued, tmp_path, None))
    fault = await refused(cluster, ssl_truststore_certificates=authority.pem)
    assert "has expired: renew it at the broker" in str(fault)
    await cluster.stop()


async def test_certificates_can_be_replaced_while_a_client_runs(
    authority: Authority, tmp_path: Path
) -> None:
    cluster = await MiniCluster().start(server_context(authority.issue("b"), tmp_path, None))
    trusted = Authority("other").truststore(tmp_path / "ca.pem")
    settings = AdminSettings(security_protocol="SSL", ssl_truststore_location=str(trusted))
    security = ClientSecurity(settings, Randomness(1))
    with pytest.raises(TlsFailed):
        await Connection.open("127.0.0.1", cluster.ports[1], security=security)
    authority.truststore(trusted)
    os.utime(trusted, (1, 1))
    connection = await Connection.open("127.0.0.1", cluster.ports[1], security=security)
    connection.close()
    await connection.wait_closed()
    await cluster.stop()


async def test_each_side_is_told_that_the_other_speaks_differently(
    authority: Authority, tmp_path: Path
) -> None:
    secured = await MiniCluster().start(server_context(authority.issue("b"), tmp_path, None))
    with pytest.raises(ConnectionFailed) as caught:
        await Connection.open("127.0.0.1", secured.ports[1])
    if isinstance(caught.value, NotABroker):
        assert "set security.protocol=SSL" in str(caught.value)
    assert "security.protocol" in str(caught.value)
    await secured.stop()


async def test_a_missing_file_is_named_with_its_setting(
    authority: Authority, tmp_path: Path
) -> None:
    cluster = await MiniCluster().start(server_context(authority.issue("b"), tmp_path, None))
    fault = await refused(cluster, ssl_truststore_location=str(tmp_path / "none.pem"))
    assert "ssl.truststore.location" in str(fault)
    assert not is_retriable(fault)
    await cluster.stop()
