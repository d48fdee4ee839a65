"""Checks what Spark needs before it can start: the packages of the extra `spark`, and Java.

Called before Spark is imported or Java is started, so that one line says what is missing. This
module itself imports neither pyspark nor anything that needs Java.

    SparkMissing           the message says what to install
    ├── PackagesMissing    also a ModuleNotFoundError
    └── JavaMissing
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from typing import Final

from odradek.world.installing import install_line

_PACKAGES: Final = ("pyspark", "pyarrow", "numba")
_MIN_JAVA: Final = 17
_NO_JAVA: Final = (
    "Spark needs Java 17 or newer, and there is none: install it (Debian: apt-get install"
    " openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME"
)
# Other lines may come first and contain quotes, such as Java's note about JAVA_TOOL_OPTIONS.
_VERSION: Final = re.compile(r'version "([^"]*)"')
# 17.0.15, 25-ea, and 1.8.0 for Java 8.
_MAJOR: Final = re.compile(r"(?:1\.)?(\d+)")


class SparkMissing(RuntimeError):
    """Something that Spark needs is missing."""


class PackagesMissing(SparkMissing, ModuleNotFoundError):
    """The extra `spark` is not installed."""


class JavaMissing(SparkMissing):
    """There is no Java that Spark could run on."""


def require_spark() -> None:
    """Raises `SparkMissing` if something that Spark needs is missing."""
    require_packages()
    find_java()


def require_packages() -> None:
    for name in _PACKAGES:
        if find_spec(name) is None:
            raise PackagesMissing(f"{name} is not installed: {install_line('spark')}")


def require_matplotlib() -> None:
    """Raises `PackagesMissing` if charts cannot be drawn into files."""
    if find_spec("matplotlib") is None:
        python = shlex.quote(sys.executable)
        raise PackagesMissing(
            f"--png needs matplotlib, which is not installed: {python} -m pip install matplotlib"
        )


def find_java() -> tuple[str, str]:
    """Returns the path and the version of the Java that Spark will use; raises `JavaMissing`."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        if home:
            other = shutil.which("java")
            instead = f"unset it to use {other}, or correct it" if other else _NO_JAVA
            raise JavaMissing(f"JAVA_HOME={home} has no bin/java: {instead}")
        raise JavaMissing(_NO_JAVA)
    version = _version_of(java)
    major = _MAJOR.match(version)
    if major is None or int(major[1]) < _MIN_JAVA:
        raise JavaMissing(f"{java} is Java {version or '(unknown)'}. {_NO_JAVA}")
    return java, version


@cache
def _version_of(java: str) -> str:
    report = subprocess.run(  # noqa: S603 - the program that Spark is about to run
        [java, "-version"], capture_output=True, text=True, check=False, timeout=60
    ).stderr
    match = _VERSION.search(report)
    return match[1] if match else ""
