"""Which Java is used, and the one line about what to install where something is missing."""

from pathlib import Path

import pytest

from odradek.spark.prerequisites import JavaMissing, find_java


def java_that_says(directory: Path, words: str) -> None:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
    program.chmod(0o755)


def test_without_java_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="openjdk-17-jre-headless") as told:
        find_java()
    assert "\n" not in str(told.value)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java_that_says(tmp_path, 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == (f"{tmp_path}/bin/java", "21.0.2")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "later"])
def test_an_old_java_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    java_that_says(tmp_path, f'openjdk version "{version}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=f"is Java {version}"):
        find_java()


def test_a_java_home_without_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JavaMissing, match="has no bin/java: Spark needs Java 17 or newer"):
        find_java()
    other = tmp_path / "other"
    java_that_says(other, 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", str(other / "bin"))
    with pytest.raises(JavaMissing, match=f"has no bin/java: unset it to use {other}/bin/java"):
        find_java()


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ('Picked up JAVA_TOOL_OPTIONS: -Da="b"\nopenjdk version "17.0.1" 2021-10-19', "17.0.1"),
        ('openjdk version "25-ea" 2025-09-16', "25-ea"),
        ('java version "21" 2023-09-19 LTS', "21"),
    ],
)
def test_whatever_it_says_besides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, version: str
) -> None:
    java_that_says(tmp_path, words)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java()[1] == version
