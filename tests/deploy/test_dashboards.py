"""The Grafana dashboards: every series is served, and the files follow from their descriptions."""

import json
import re
import subprocess
import sys

import pytest

from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.series import dashboard_expressions, named, served

EXPRESSIONS = dashboard_expressions()


def test_the_files_follow_from_their_descriptions() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw_dashboards.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_there_are_five() -> None:
    assert set(EXPRESSIONS) == {"broker", "cluster", "group", "spark", "topic"}


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_every_series_is_served(name: str) -> None:
    known = served()
    wrong = [
        f"{series} {labels - known.get(series, set())} in {expression}"
        for expression in EXPRESSIONS[name]
        for series, labels in named(expression)
        if not labels <= known.get(series, set()) or series not in known
    ]
    assert wrong == []
    assert all(any(named(expression)) for expression in EXPRESSIONS[name])


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_panels_do_not_overlap_and_variables_exist(name: str) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / f"{name}.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {
            (column, row)
            for column in range(at["x"], at["x"] + at["w"])
            for row in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(cells)[0] < 24
        taken |= cells
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = {
        variable
        for expression in EXPRESSIONS[name]
        for variable in re.findall(r"\$(\w+)", expression)
    }
    assert used - {"__rate_interval"} <= variables
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
