"""Paths are checked before Java starts."""

import os
from pathlib import Path

import pytest

from odradek.spark.preflight import BadPath, check_directory


def test_a_directory_that_no_filesystem_takes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc does to everybody, whatever its mode says."""

    def refuse(path: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    archive = tmp_path / "a" / "b"
    check_directory("--to", str(archive), must_exist=False)
    assert not (tmp_path / "a").exists()
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(BadPath, match=rf"--to {archive} cannot be created in {tmp_path}: No such"):
        check_directory("--to", str(archive), must_exist=False)
