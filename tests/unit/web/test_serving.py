"""Listening, draining, TLS, mutual TLS and HTTP/2."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from benchmarks.broker_process import ToolMissing
from odradek.web.guards import Policy
from odradek.web.login import Login
from odradek.web.serving import CannotServe, Listener, Tls
from tests.needs import need
from tests.unit.web.service import Client, Service, served


async def test_a_port_in_use_is_explained() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=f"cannot listen at 127.0.0.1:{port}: Address"):
            async with served(Service(), listener=Listener(port=port)):
                pass


async def test_stopping_answers_what_is_in_progress() -> None:
    service = Service()
    async with served(service) as client:
        slow = asyncio.create_task(client.ask("GET", "/slow"))
        await service.entered.wait()
        asyncio.get_running_loop().call_later(0.2, service.gate.set)
    assert (await slow).json == "at last"
    with pytest.raises(ConnectionRefusedError):
        await client.ask("GET", "/look")


async def test_what_does_not_end_in_time_is_answered_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service()
    async with served(service, listener=Listener(drain_s=1)) as client:
        slow = asyncio.create_task(client.ask("GET", "/slow"))
        await service.entered.wait()
    answer = await slow
    assert answer.status == 503
    assert "ask again" in answer.json["message"]
    assert not [record for record in caplog.records if record.exc_info]


class TestHttp2:
    async def test_without_tls_the_first_bytes_decide(self) -> None:
        async with served(Service(), listener=Listener(http2=True)) as client:
            assert (await client.ask("GET", "/look")).status == 200
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
            # Literal header fields: GET, http, path /look, and the host.
            fields = b"\x82\x86\x04\x05/look\x01\x09localhost"
            headers = len(fields).to_bytes(3, "big") + bytes([1, 5, 0, 0, 0, 1]) + fields
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + headers)
            received = b""
            async with asyncio.timeout(20):
                while b'"who":"ANONYMOUS"' not in received:
                    data = await reader.read(65536)
                    assert data, received
                    received += data
            writer.close()
            await writer.wait_closed()

    async def test_an_ordinary_service_has_http_1_only(self) -> None:
        async with served(Service()) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert (await reader.read(65536)).startswith(b"HTTP/1.1 400")
            writer.close()
            await writer.wait_closed()


def make_certificates(directory: Path) -> None:
    """A CA, a server `localhost` and a client `ada`, all for a day."""

    def program() -> str:
        found = shutil.which("openssl")
        if found is None:
            raise ToolMissing("openssl is missing (Debian: apt-get install openssl)")
        return found

    path = need(program)

    def openssl(*words: str) -> None:
        subprocess.run([path, *words], cwd=directory, check=True, capture_output=True, timeout=60)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    for name in ("localhost", "ada"):
        (directory / "ext").write_text(f"subjectAltName=DNS:{name}\n")
        request, out = f"{name}.csr", f"{name}.pem"
        openssl("req", *key, "-keyout", f"{name}.key", "-out", request, "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", request, "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "1",
                "-out", out, "-extfile", "ext")  # fmt: skip


class TestTls:
    @pytest.mark.parametrize("http2", [False, True])
    async def test_the_certificate_of_a_client_is_its_log_in(
        self, http2: bool, tmp_path: Path
    ) -> None:
        make_certificates(tmp_path)
        tls = Tls(*(str(tmp_path / name) for name in ("localhost.pem", "localhost.key", "ca.pem")))
        policy = Policy(login=Login(certificates=True))
        async with served(Service(), policy, Listener(tls=tls, http2=http2)) as client:
            known = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
            known.load_cert_chain(tmp_path / "ada.pem", tmp_path / "ada.key")
            answer = await Client(client.port, known).ask("GET", "/look")
            assert answer.json["who"] == "ada"
            stranger = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
            with pytest.raises((ssl.SSLError, ConnectionError, OSError)):
                await Client(client.port, stranger).ask("GET", "/look")

    async def test_a_wrong_file_is_explained(self, tmp_path: Path) -> None:
        (tmp_path / "no.pem").write_text("not a certificate")
        listener = Listener(tls=Tls(str(tmp_path / "no.pem")))
        with pytest.raises(CannotServe, match="certificate or key cannot be read"):
            async with served(Service(), listener=listener):
                pass
