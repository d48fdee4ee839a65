"""The Helm chart, and the manifests that were written from it."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from odradek.config import parse_properties
from tests.deploy.files import DEPLOY, VERSION, obeyed, read_yaml, tool

CHART = DEPLOY / "helm/odradek"
KUBERNETES = DEPLOY / "kubernetes"
TEMPLATES = sorted((CHART / "templates").iterdir())


def _values() -> dict[str, Any]:
    (values,) = read_yaml(CHART / "values.yaml")
    return dict(values)


def _value_names(values: dict[str, Any], before: str = "") -> set[str]:
    """Returns the dotted names of all values. Maps that users fill are values themselves."""
    names = set()
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in {"settings", "resources"}:
            names |= _value_names(value, f"{before}{name}.")
        else:
            names.add(f"{before}{name}")
    return names


def _manifest(kind: str, file: str = "odradek.yaml") -> dict[str, Any]:
    found = [one for one in read_yaml(KUBERNETES / file) if one["kind"] == kind]
    return dict(found[0])


def test_templates_use_all_values_and_no_others() -> None:
    used = {
        name
        for template in TEMPLATES
        for name in re.findall(r"\.Values\.([\w.]+)", template.read_text())
    }
    assert used == _value_names(_values())


def test_the_chart_has_the_version_of_the_program() -> None:
    (chart,) = read_yaml(CHART / "Chart.yaml")
    assert chart["appVersion"] == VERSION


def test_brokers_obey_every_setting_of_the_manifest() -> None:
    lines = _manifest("ConfigMap")["data"]["server.properties"]
    settings = obeyed(parse_properties(lines) | {"node.id": "0"})
    pod = _manifest("StatefulSet")["spec"]["template"]["spec"]
    (broker,) = pod["containers"]
    assert {listener.port for listener in settings.listeners} == {
        port["containerPort"] for port in broker["ports"]
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in broker["volumeMounts"]}
    assert settings.data_directories == (f"{mounts['data']}/data",)
    servers = re.findall(r"(zookeeper-\d)\.zookeeper:2181", settings.zookeeper_connect or "")
    assert len(servers) == _manifest("StatefulSet", "zookeeper.yaml")["spec"]["replicas"]


def test_the_stateful_set_belongs_to_its_services() -> None:
    documents = read_yaml(KUBERNETES / "odradek.yaml")
    stateful_set = _manifest("StatefulSet")
    services = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Service"}
    headless = services[stateful_set["spec"]["serviceName"]]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    labels = stateful_set["spec"]["template"]["metadata"]["labels"]
    selectors = [service["spec"]["selector"] for service in services.values()]
    selectors.append(_manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= labels.items()
    command = " ".join(stateful_set["spec"]["template"]["spec"]["containers"][0]["command"])
    assert f"$HOSTNAME.{headless['metadata']['name']}.$NAMESPACE.svc." in command


def test_a_broker_is_probed_alone_on_its_node_and_not_root() -> None:
    pod = _manifest("StatefulSet")["spec"]["template"]["spec"]
    (broker,) = pod["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert broker[probe]["exec"]["command"] == ["healthcheck", "127.0.0.1:9092"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10092  # The user of the image.
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert required in pod["affinity"]["podAntiAffinity"]
    assert _manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert broker["image"] == f"odradek:{VERSION}"


# With tools that are not always there


def _rendered(*flags: str) -> str:
    return subprocess.run(
        [tool("helm"), "template", "odradek", CHART, "--namespace", "odradek", *flags],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_helm_accepts_the_chart() -> None:
    checked = subprocess.run(
        [tool("helm"), "lint", "--strict", CHART, "--values", KUBERNETES / "values.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_manifest_is_what_helm_renders() -> None:
    rendered = _rendered("--values", str(KUBERNETES / "values.yaml"))
    documents = [one for one in yaml.safe_load_all(rendered) if one]
    assert documents == read_yaml(KUBERNETES / "odradek.yaml")


def test_the_management_port_changes_probes_and_ports() -> None:
    rendered = _rendered("--set", "replicas=1", "--set", "management.enabled=true")
    assert "http://127.0.0.1:9404/readyz" in rendered
    assert "management.listener=http://0.0.0.0:9404" in rendered
    assert "kind: PodDisruptionBudget" not in rendered


def test_several_brokers_without_an_ensemble_are_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        _rendered()
    assert "zookeeper.connect is empty" in refused.value.stderr
