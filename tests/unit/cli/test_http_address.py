"""How commands reach an HTTP service that a user names by a URL."""

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from odradek.cli.http_address import HttpAddress, basic_log_in
from odradek.tools.failures import CommandFailed


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://localhost", "localhost", 8083),
        ("http://ada:secret@worker:9000/x", "worker", 9000),
        ("http://[::1]", "::1", 8083),
    ],
)
def test_host_and_port(url: str, host: str, port: int) -> None:
    connection = HttpAddress(urlsplit(url), 8083, None).connection(1.0)
    assert (connection.host, connection.port) == (host, port)
    assert not isinstance(connection, http.client.HTTPSConnection)


def test_https_checks_certificates() -> None:
    address = HttpAddress(urlsplit("https://worker"), 443, None)
    assert isinstance(address.connection(None), http.client.HTTPSConnection)
    assert address.context is not None
    assert address.context.check_hostname


def test_a_file_of_certificates_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"^--ca .*nowhere\.pem: No such file"):
        HttpAddress(urlsplit("https://worker"), 443, str(tmp_path / "nowhere.pem"))


def test_a_log_in_is_decoded_from_the_url() -> None:
    parts = urlsplit("https://ad%40a:s%3Aecret@worker")
    assert basic_log_in(parts.username or "", parts.password or "") == "Basic YWRAYTpzOmVjcmV0"
