"""The benchmarks run and their report is written, so that they do not rot between releases."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.figures import Results

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_quick_run_of_odradek_alone_measures_and_says_so(tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--rounds", "1", "--without-kafka"]
    command += ["--only", "requests", "--only", "wire", "--json", str(values)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(values.read_text())
    assert measured["one-record requests, 1 connection, 1 under way"]["Odradek"][0] > 100
    assert "end to end, bare protocol, p99.9" in done.stdout


def test_the_page_keeps_its_words_and_gets_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "PLOT", page.with_suffix(".svg"))
    results = Results()
    for rate in (90.0, 110.0, 2000.0):
        results.add("Odradek", {"one-record requests": rate})
    results.add("Apache Kafka", {"one-record requests": 100.0})
    report.write_page(results.compare("Odradek", "Apache Kafka"), "a test")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| one-record requests | requests/s | 110 | 100 | 1.10x | ≥ 1.5x **missed** |" in text
    assert page.with_suffix(".svg").exists()


def test_the_cost_of_metrics_is_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.metrics_cost", "--quick", "--partitions", "100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("idle memory", "produce", "one-record requests p99", "scrape of 100 partitions"):
        assert any(line.startswith(name) for line in done.stdout.splitlines()), done.stdout
