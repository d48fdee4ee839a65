"""Writes the Grafana dashboards of deploy/grafana from the descriptions in dashboards.yaml there.

    python scripts/draw_dashboards.py            writes deploy/grafana/*.json
    python scripts/draw_dashboards.py --check    ends with 1 if a file is out of date

Colours, tooltips and variables are the same everywhere, which is why the files are not written by
hand. tests/deploy/test_dashboards.py checks that every series in them is declared.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[1] / "deploy" / "grafana"
_COLUMNS: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """One picture. `queries` are expressions by legend. Values from `bad_from` on, or below
    `bad_below`, are red."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    help: str = ""
    kind: str = "timeseries"
    width: int = 8
    bad_from: float | None = None
    bad_below: float | None = None
    is_stacked: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height on Grafana's grid."""
        return (4, 4) if self.kind == "stat" else (self.width, 8)

    def model(self, number: int, x: int, y: int) -> dict[str, Any]:
        """Returns the panel as Grafana stores it."""
        width, height = self.size
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.help,
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "targets": [
                {
                    "refId": chr(ord("A") + position),
                    "datasource": _SOURCE,
                    "expr": expression,
                    "legendFormat": legend,
                    "instant": self.kind == "stat",
                    "range": self.kind != "stat",
                }
                for position, (legend, expression) in enumerate(self.queries.items())
            ],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
        }

    def _defaults(self) -> dict[str, Any]:
        steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
        if self.bad_from is not None:
            steps.append({"color": "red", "value": self.bad_from})
        if self.bad_below is not None:
            steps = [{"color": "red", "value": None}, {"color": "green", "value": self.bad_below}]
        defaults: dict[str, Any] = {
            "unit": self.unit,
            "thresholds": {"mode": "absolute", "steps": steps},
        }
        if self.kind == "timeseries":
            defaults["min"] = 0
            defaults["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 10,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.is_stacked else "none"},
            }
        return defaults

    def _options(self) -> dict[str, Any]:
        if self.kind == "stat":
            return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
        legend = {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _dashboard(name: str, described: dict[str, Any]) -> dict[str, Any]:
    """Returns a dashboard as Grafana stores it."""
    panels, x, y, row_height = [], 0, 0, 0
    for number, panel in enumerate((Panel(**one) for one in described["panels"]), 1):
        width, height = panel.size
        if x + width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        panels.append(panel.model(number, x, y))
        x, row_height = x + width, max(row_height, height)
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource"}
    variables = [_variable(*one) for one in described["variables"].items()]
    return {
        "uid": f"odradek-{name}",
        "title": f"Odradek: {described['title']}",
        "tags": ["odradek"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {"type": "dashboards", "tags": ["odradek"], "title": "Odradek", "asDropdown": True}
        ],
        "templating": {"list": [{**source, "query": "prometheus"}, *variables]},
        "panels": panels,
    }


def _variable(name: str, series_and_label: list[str]) -> dict[str, Any]:
    """Returns a choice above the panels, whose values are those of a label of a series."""
    series, label = series_and_label
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({series}, {label})", "refId": name},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "multi": True,
        # Other programs have series such as `up` and `process_open_fds` too.
        "allValue": "odradek.*" if name == "job" else ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def files() -> dict[Path, str]:
    """Returns the content of each dashboard's file."""
    described = yaml.safe_load((FOLDER / "dashboards.yaml").read_text())
    return {
        FOLDER / f"{name}.json": json.dumps(_dashboard(name, one), indent=1) + "\n"
        for name, one in described.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, and write nothing")
    arguments = parser.parse_args()
    changed = {
        path: text
        for path, text in files().items()
        if not path.exists() or path.read_text() != text
    }
    for path, text in changed.items():
        if arguments.check:
            sys.stderr.write(
                f"{path.name} is out of date; run: python scripts/draw_dashboards.py\n"
            )
        else:
            path.write_text(text)
    return int(arguments.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
