"""`odradek zookeeper`: a ZooKeeper server for development, in the foreground.

It is Apache ZooKeeper itself, on Java: this finds both and steps aside, so that signals and
the terminal are the server's own.
"""

import argparse
import glob
import importlib.util
import os
import shutil

from odradek.cli.failures import CommandFailed

_EXAMPLES = """\
examples:
  odradek zookeeper
  odradek zookeeper --port 2182 --data /tmp/zookeeper

then, for instance:
  odradek up --brokers 3 --zookeeper 127.0.0.1:2181/cluster-one

The server comes from $ODRADEK_ZOOKEEPER_JARS, from PySpark, from $ZOOKEEPER_HOME/lib or from
Debian's packages, whichever is there first.
"""

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# A server for development: small, quick to start, and with sessions that may be short.
_JVM_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TICK_MS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek zookeeper [--host HOST] [--port PORT] [--data DIRECTORY]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--host", metavar="HOST", default="127.0.0.1", help="where to listen; 127.0.0.1 if unset"
    )
    parser.add_argument(
        "--port", metavar="PORT", type=int, default=2181, help="the port; 2181 if unset"
    )
    parser.add_argument(
        "--data",
        metavar="DIRECTORY",
        default="zookeeper-data",
        help="where its data go; ./zookeeper-data if unset",
    )


def run(arguments: argparse.Namespace) -> int:
    command = server_command(
        write_config(arguments.data, arguments.port, host=arguments.host),
    )
    print(
        f"ZooKeeper: {arguments.host}:{arguments.port}, data in {arguments.data}, Ctrl-C stops it",
        flush=True,
    )
    os.execv(command[0], command)  # noqa: S606 - the server takes this process over


def write_config(
    directory: str, port: int, *, host: str = "127.0.0.1", more: dict[str, str] | None = None
) -> str:
    """Writes the server's configuration into its directory; returns where."""
    settings = {
        "dataDir": os.path.abspath(directory),
        "clientPort": str(port),
        "clientPortAddress": host,
        "tickTime": str(_TICK_MS),
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr,mntr,cons",
        **(more or {}),
    }
    path = os.path.join(directory, "zookeeper.properties")
    try:
        os.makedirs(directory, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())
    except OSError as error:
        raise CommandFailed(
            f"cannot write {path}: {error.strerror}; choose another directory with --data"
        ) from None
    return path


def server_command(config: str, class_path: str | None = None) -> list[str]:
    """The command that runs a server; raises `CommandFailed` that says how to get it."""
    java = shutil.which("java")
    if java is None:
        raise CommandFailed(
            "ZooKeeper needs Java: apt-get install default-jre-headless, or brew install openjdk"
        )
    return [java, *_JVM_FLAGS, "-cp", class_path or find_class_path(), _MAIN, config]


def find_class_path() -> str:
    directories = [os.environ.get("ODRADEK_ZOOKEEPER_JARS", "")]
    spark = importlib.util.find_spec("pyspark")
    if spark is not None and spark.submodule_search_locations:
        directories.append(os.path.join(spark.submodule_search_locations[0], "jars"))
    home = os.environ.get("ZOOKEEPER_HOME")
    if home:
        directories.append(os.path.join(home, "lib"))
    directories.append("/usr/share/java")
    for directory in filter(None, directories):
        if glob.glob(os.path.join(glob.escape(directory), "zookeeper*.jar")):
            return os.path.join(directory, "*")
    raise CommandFailed(
        "no ZooKeeper server here: pip install 'odradek[spark]' brings one, so does"
        " apt-get install zookeeper; or name a directory of its jars in ODRADEK_ZOOKEEPER_JARS"
    )
