"""Which copy of Spark a process takes, and that the processes of a session come to ask."""

import os
import subprocess
import sys
from pathlib import Path

from odradek.spark.spark_session import STARTUP
from odradek.spark.unpacked import prefer_unpacked


def installed(tmp_path: Path) -> tuple[str, str]:
    package = tmp_path / "site-packages" / "pyspark"
    (package / "python" / "lib").mkdir(parents=True)
    (package / "worker.py").touch()
    return str(tmp_path / "site-packages"), str(package / "python" / "lib" / "pyspark.zip")


def test_the_installed_package_is_taken_and_not_its_zip_file(tmp_path: Path) -> None:
    site, archive = installed(tmp_path)
    assert prefer_unpacked([archive, "/other/py4j.zip", site]) == ["/other/py4j.zip", site]


def test_a_zip_file_without_its_package_on_the_path_stays(tmp_path: Path) -> None:
    _, archive = installed(tmp_path)
    assert prefer_unpacked([archive, "/elsewhere"]) == [archive, "/elsewhere"]


def test_a_zip_file_of_a_cluster_stays(tmp_path: Path) -> None:
    site, _ = installed(tmp_path)
    path = ["/opt/spark/python/lib/pyspark.zip", site]
    assert prefer_unpacked(path) == path


def test_a_python_of_spark_takes_the_package_and_runs_what_it_would_have_run(
    tmp_path: Path,
) -> None:
    site, archive = installed(tmp_path)
    others = tmp_path / "others"
    others.mkdir()
    (others / "sitecustomize.py").write_text("import sys\nsys.was_customised = True\n")
    path = [archive, STARTUP, str(others), site, *sys.path]
    code = "import sys; print(sys.was_customised, [one for one in sys.path if one in %r])"
    done = subprocess.run(
        [sys.executable, "-c", code % ([archive, STARTUP, site],)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"True {[site]}\n"
