"""The alert rules: their series are served, each fires when it should, and the runbook has all."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from benchmarks.broker_process import ToolMissing
from tests.deploy.alert_cases import FIRING, HEALTHY, HOURS
from tests.deploy.files import DEPLOY, ROOT, program
from tests.deploy.series import alerts, named, served
from tests.needs import need

RULES = DEPLOY / "prometheus" / "alerts.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"
ALERTS = alerts()


@pytest.fixture(scope="module")
def promtool() -> str:
    return need(_promtool)


def _promtool() -> str:
    path = program("promtool")
    if path is None:
        raise ToolMissing("promtool is missing (Debian: apt-get install prometheus)")
    return path


# What can be checked without promtool


@pytest.mark.parametrize("name", ALERTS)
def test_every_series_is_served(name: str) -> None:
    known = served()
    found = list(named(str(ALERTS[name]["expr"])))
    assert found
    for series, labels in found:
        assert series in known
        assert labels <= known[series]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_more(name: str) -> None:
    rule = ALERTS[name]
    assert isinstance(rule["labels"], dict)
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    annotations = rule["annotations"]
    assert isinstance(annotations, dict)
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["runbook_url"] == f"docs/runbook.md#{name.lower()}"
    assert annotations["description"].endswith(".")


def test_the_runbook_has_a_section_for_each_alert_in_their_order() -> None:
    sections = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_a_section_of_the_runbook_says_what_it_means_and_what_to_type(name: str) -> None:
    text = RUNBOOK.read_text() + "\n## \n"
    section = re.search(rf"^### {name}$(.*?)^##", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert section[1].count("**Means**") == section[1].count("**Look**") == 1
    assert section[1].count("**Do**") == 1


# With promtool


def _firing(promtool: str, directory: Path, series: Mapping[str, str], expected: list[str]) -> str:
    """Returns what is wrong if after some hours of these series other alerts fire."""
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": f"{HOURS}h",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected
                        ],
                    }
                ],
            }
        ],
    }
    path = directory / "test.yml"
    path.write_text(yaml.safe_dump(test))
    tested = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, check=False
    )
    return tested.stdout + tested.stderr if tested.returncode else ""


def test_promtool_accepts_the_rules(promtool: str) -> None:
    checked = subprocess.run(
        [promtool, "check", "rules", RULES], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in checked.stdout


def test_promtool_accepts_the_settings_of_the_compose_file(promtool: str, tmp_path: Path) -> None:
    settings = (DEPLOY / "container" / "prometheus.yml").read_text()
    assert "/etc/prometheus/rules/*.yml" in settings
    path = tmp_path / "prometheus.yml"
    path.write_text(settings.replace("/etc/prometheus/rules", str(RULES.parent)))
    checked = subprocess.run(
        [promtool, "check", "config", path], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


def test_nothing_fires_in_a_healthy_cluster(promtool: str, tmp_path: Path) -> None:
    assert _firing(promtool, tmp_path, HEALTHY, []) == ""


def test_every_alert_has_a_case() -> None:
    assert list(FIRING) == list(ALERTS)


@pytest.mark.parametrize("name", FIRING)
def test_an_alert_fires_and_no_other_does(promtool: str, tmp_path: Path, name: str) -> None:
    series = HEALTHY | dict(FIRING[name])
    if name == "OdradekNotScraped":
        series = dict(FIRING[name])
    assert _firing(promtool, tmp_path, series, [name]) == ""
