"""The container image and the compose file. Nothing is built here: there is no container engine."""

import http.server
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.registry.settings import SchemaRegistrySettings
from odradek.rest.settings import RestSettings
from odradek.services.settings import ServiceSettings
from odradek.testing import Cluster
from tests.deploy.files import DEPLOY, ROOT, VERSION, obeyed, overrides, properties, read_yaml

CONTAINER = DEPLOY / "container"
HEALTHCHECK = CONTAINER / "healthcheck"
BROKERS = ("broker-1", "broker-2", "broker-3")


def _instructions() -> list[str]:
    """Returns the instructions of the Containerfile, without comments and line breaks."""
    text = (CONTAINER / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line]


def _compose() -> dict[str, Any]:
    (document,) = read_yaml(CONTAINER / "compose.yaml")
    return dict(document)


# The image


def test_the_image_does_not_run_as_root() -> None:
    users = [line.split()[1] for line in _instructions() if line.startswith("USER")]
    assert users == ["10092:10092"]
    last_stage = "\n".join(_instructions()).rsplit("\nFROM ", 1)[1]
    assert "--uid 10092 --gid 10092" in last_stage


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    ignored = (CONTAINER / "Containerfile.dockerignore").read_text().splitlines()
    copied = [
        source
        for line in _instructions()
        if line.startswith("COPY") and "--from=" not in line
        for source in line.split()[1:-1]
        if not source.startswith("--")
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored


def test_the_settings_of_the_image_are_obeyed() -> None:
    settings = obeyed(properties(CONTAINER / "server.properties"))
    ports = {line.split()[1] for line in _instructions() if line.startswith("EXPOSE")}
    assert {str(listener.port) for listener in settings.listeners} == ports
    assert any(f'["healthcheck", "127.0.0.1:{port}"]' in _instructions()[-3] for port in ports)
    volumes = [line.split()[1] for line in _instructions() if line.startswith("VOLUME")]
    assert all(path.startswith(f"{volumes[0]}/") for path in settings.data_directories)


# The health check


def _check(target: str) -> tuple[int, str]:
    checked = subprocess.run(
        [sys.executable, HEALTHCHECK, target], capture_output=True, text=True, check=False
    )
    return checked.returncode, checked.stderr


def test_a_broker_that_answers_is_healthy(odradek_cluster: Cluster) -> None:
    assert _check(odradek_cluster.bootstrap) == (0, "")


def test_a_port_that_is_closed_or_is_not_a_brokers_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def close_connection() -> None:
            server.accept()[0].close()

        thread = threading.Thread(target=close_connection)
        thread.start()
        code, reason = _check(address)
        thread.join()
        assert code == 1
        assert reason.startswith(f"{address}: ")
    assert _check(address)[0] == 1
    assert _check("nonsense")[0] == 1


def test_a_broker_whose_event_loop_is_stuck_is_not_healthy() -> None:
    """The kernel accepts the connection, and nobody reads the request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code, reason = _check(f"127.0.0.1:{server.getsockname()[1]}")
    assert code == 1
    assert "timed out" in reason


@contextmanager
def _management_port(status: int, text: str) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/readyz"
        server.shutdown()
        thread.join()


def test_the_management_port_says_why_a_broker_is_not_ready() -> None:
    with _management_port(200, "ready") as url:
        assert _check(url) == (0, "")
    with _management_port(503, "recovering 3 of 7 logs") as url:
        assert _check(url) == (1, f"{url}: 503 recovering 3 of 7 logs\n")


# The compose file


def test_the_brokers_of_the_compose_file_start_with_these_settings() -> None:
    services = _compose()["services"]
    shared = properties(CONTAINER / "compose.properties")
    ids, outside = set(), set()
    for name in BROKERS:
        settings = obeyed(shared | overrides(services[name]["command"]))
        ids.add(settings.node_id)
        advertised = {
            listener.name: f"{listener.host}:{listener.port}"
            for listener in settings.advertised_listeners or ()
        }
        ports = {listener.name: listener.port for listener in settings.listeners}
        assert advertised["INSIDE"] == f"{name}:{ports['INSIDE']}"
        # A port of this machine only, which is the one that is advertised.
        published = re.fullmatch(r"127\.0\.0\.1:(\d+):(\d+)", services[name]["ports"][0])
        assert published is not None
        assert advertised["OUTSIDE"] == f"localhost:{published[1]}"
        assert int(published[2]) == ports["OUTSIDE"]
        outside.add(published[1])
        assert services[name]["healthcheck"]["test"][-1] == f"127.0.0.1:{ports['OUTSIDE']}"
        assert services[name]["volumes"] == [f"{name}:/var/lib/odradek"]
        assert settings.zookeeper_connect == "zookeeper:2181/odradek"
    assert len(ids) == len(outside) == len(BROKERS)


def test_the_compose_file_names_what_exists() -> None:
    compose = _compose()
    named = set(compose["volumes"])
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (CONTAINER / source).is_dir(), source
            else:
                assert source in named
        for config in service.get("configs", ()):
            assert (CONTAINER / compose["configs"][config["source"]]["file"]).is_file()
        for other in service.get("depends_on", ()):
            assert other in compose["services"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
    assert compose["services"]["broker-1"]["image"] == f"odradek:{VERSION}"
    assert (ROOT / compose["services"]["broker-1"]["build"]["dockerfile"]).exists()


def test_prometheus_scrapes_every_broker_and_grafana_asks_prometheus() -> None:
    (config,) = read_yaml(CONTAINER / "prometheus.yml")
    (job,) = config["scrape_configs"]
    targets = job["static_configs"][0]["targets"]
    assert targets == [f"{name}:9404" for name in BROKERS]
    provisioning = CONTAINER / "grafana/provisioning"
    (sources,) = read_yaml(provisioning / "datasources/prometheus.yaml")
    assert sources["datasources"][0]["url"] == "http://prometheus:9090"
    (dashboards,) = read_yaml(provisioning / "dashboards/odradek.yaml")
    path = dashboards["providers"][0]["options"]["path"]
    assert f"../grafana:{path}:ro" in _compose()["services"]["grafana"]["volumes"]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.properties")), ids=lambda path: path.name)
def test_every_settings_file_is_checked_by_some_test(path: Path) -> None:
    """A file that is added is added to the tests too, or at least obeyed as it is."""
    services: dict[str, type[ServiceSettings]] = {
        "schema-registry": SchemaRegistrySettings,
        "kafka-rest": RestSettings,
    }
    if path.stem in services:
        settings = services[path.stem].from_file(properties(path))
        assert settings.notes == ()
    else:
        obeyed(properties(path))
