"""The series that programs of Odradek serve, and those that an expression of Prometheus names."""

import json
import re
from collections.abc import Iterator

from odradek.spark.pipelines import progress_lines
from odradek.telemetry.catalogue import ALL
from odradek.telemetry.declarations import Kind
from tests.deploy.files import DEPLOY, read_yaml

# `up` is Prometheus' own.
_NAME = re.compile(r"\b(?:up\b|(?:kafka|odradek|process)_\w+)")
_SUFFIXES = {
    Kind.COUNTER: ("",),
    Kind.GAUGE: ("",),
    Kind.SUMMARY: ("", "_sum", "_count"),
    Kind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_FROM_PROMETHEUS = {"job", "instance"}


def served() -> dict[str, set[str]]:
    """Returns the labels of each series that a broker or a pipeline serves."""
    found = {"up": set(_FROM_PROMETHEUS)}
    for metric in ALL.values():
        for suffix in _SUFFIXES[metric.kind]:
            labels = {*metric.labels, *_FROM_PROMETHEUS}
            if metric.kind is Kind.SUMMARY and not suffix:
                labels.add("quantile")
            found[metric.name + suffix] = labels
    pipelines = progress_lines.prometheus("p", {"q": {}})
    for name in re.findall(r"# TYPE (\w+)", pipelines):
        found[name] = {"pipeline", "query", *_FROM_PROMETHEUS}
    return found


def named(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yields the series in an expression, each with the labels that its selector names."""
    for match in _NAME.finditer(expression):
        selector = re.match(r"\{([^}]*)\}", expression[match.end() :])
        yield match[0], set(_LABEL.findall(selector[1])) if selector else set()


def alerts() -> dict[str, dict[str, object]]:
    """Returns the alert rules by name."""
    (document,) = read_yaml(DEPLOY / "prometheus" / "alerts.yml")
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules), "two alerts have one name"
    return {rule["alert"]: rule for rule in rules}


def dashboard_expressions() -> dict[str, list[str]]:
    """Returns the expressions of each dashboard, those of its variables too."""
    found = {}
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        dashboard = json.loads(path.read_text())
        found[path.stem] = [
            target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
        ] + [
            re.sub(r"label_values\((.*), \w+\)", r"\1", variable["query"]["query"])
            for variable in dashboard["templating"]["list"]
            if variable["type"] == "query"
        ]
    return found


def without_variables(expression: str) -> str:
    """Returns an expression as Grafana sends it to Prometheus when everything is chosen."""
    for variable, value in {"$__rate_interval": "1m", "$job": "odradek.*"}.items():
        expression = expression.replace(variable, value)
    return re.sub(r"\$\w+", ".*", expression)
