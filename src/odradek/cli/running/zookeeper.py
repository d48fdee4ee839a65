"""`odradek zookeeper`: a ZooKeeper server in the foreground.

It is Apache ZooKeeper itself, on Java. This command finds both and replaces itself with the server
(exec), so that signals and the terminal belong to the server. Given a file, the server reads that
file and nothing else, so every setting in it (`autopurge.*`, `authProvider.*`, `server.N`, ...)
means what it means to ZooKeeper. Without one, a small configuration for development is written from
the flags.

Options of the JVM, such as `-Djava.security.auth.login.config=...` for SASL, come from the
environment variables that ZooKeeper's and Kafka's own scripts use.
"""

import argparse
import glob
import importlib.util
import os
import shlex
import shutil
from typing import Any

from odradek.cli.running.options import add_daemon_argument, refuse_daemon
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world.installing import install_line

_EXAMPLES = """\
examples:
  odradek zookeeper
  odradek zookeeper --port 2182 --data /tmp/zookeeper
  odradek zookeeper config/zookeeper.properties

then, for instance:
  odradek up --brokers 3 --zookeeper 127.0.0.1:2181/cluster-one

The server comes from $ODRADEK_ZOOKEEPER_JARS, from PySpark, from $ZOOKEEPER_HOME/lib or from
Debian's packages, whichever is there first. Options of the JVM come from $SERVER_JVMFLAGS,
$JVMFLAGS, $KAFKA_LOG4J_OPTS and $KAFKA_OPTS.
"""

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# Settings for development: little memory, a quick start, and short session timeouts allowed.
# Without the last one log4j prints a line of its own at each start.
_JVM_FLAGS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.jmx.log4j.disable=true",
)
_JVM_VARIABLES = ("SERVER_JVMFLAGS", "JVMFLAGS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS")
_TICK_MS = 500
_DEFAULTS: dict[str, Any] = {"host": "127.0.0.1", "port": 2181, "data": "zookeeper-data"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek zookeeper [CONFIG | [--host HOST] [--port PORT] [--data DIRECTORY]]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "config",
        metavar="CONFIG",
        nargs="?",
        help="a configuration file of ZooKeeper, in place of the flags",
    )
    parser.add_argument("--host", metavar="HOST", help="where to listen; 127.0.0.1 if unset")
    parser.add_argument("--port", metavar="PORT", type=int, help="the port; 2181 if unset")
    parser.add_argument(
        "--data", metavar="DIRECTORY", help="where its data go; ./zookeeper-data if unset"
    )
    add_daemon_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    refuse_daemon(arguments, "zookeeper")
    values = {name: getattr(arguments, name) for name in _DEFAULTS}
    flags = [f"--{name}" for name, value in values.items() if value is not None]
    if arguments.config is not None:
        if flags:
            raise UsageError(f"{', '.join(flags)}: {arguments.config} says this; leave it out")
        command = server_command(_checked_config(arguments.config))
        properties = read_properties(arguments.config)
        _require_free(properties.get("clientPortAddress", ""), properties.get("clientPort", ""))
        print(f"ZooKeeper: configured by {arguments.config}, Ctrl-C stops it", flush=True)
    else:
        host, port, data = (values[name] or default for name, default in _DEFAULTS.items())
        _require_free(host, str(port))
        command = server_command(write_config(data, port, host=host))
        print(f"ZooKeeper: {host}:{port}, data in {data}, Ctrl-C stops it", flush=True)
    os.execv(command[0], command)  # noqa: S606 - the server takes this process over


def _require_free(host: str, port: str) -> None:
    """Raises if the server cannot listen there; its own error would be a stack trace of Java."""
    import socket

    if not port.isdecimal():
        return
    if not 0 <= int(port) <= 65535:
        raise UsageError(f"--port: {port} is not a port; ports go from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, int(port)))
        except OSError as error:
            where = f"{host or '*'}:{port}"
            raise CommandFailed(
                f"cannot listen at {where}: {(error.strerror or str(error)).lower()}; if a"
                " ZooKeeper server runs there already, use it, else choose another port"
            ) from None


def _checked_config(path: str) -> str:
    """Returns the path of a configuration file after some checks, because ZooKeeper's own errors
    are stack traces."""
    properties = read_properties(path)
    if "dataDir" not in properties:
        raise CommandFailed(f"{path} has no dataDir, so it is not a ZooKeeper configuration")
    if any(name.startswith("server.") for name in properties):
        _check_own_id(path, properties)
    return path


def _check_own_id(path: str, properties: dict[str, str]) -> None:
    """Checks the file `myid`, from which a server of an ensemble reads which of the `server.N` it
    is."""
    own = os.path.join(properties["dataDir"], "myid")
    try:
        with open(own, encoding="utf-8") as file:
            number = file.read().strip()
    except OSError as error:
        raise CommandFailed(
            f"{path} names the servers of an ensemble, and {own} does not say which of them this"
            f" is ({error.strerror}): write its number there, as in: echo 1 > {shlex.quote(own)}"
        ) from None
    if f"server.{number}" not in properties:
        raise CommandFailed(f"{own} says {number!r}, and {path} has no server.{number}")


def write_config(
    directory: str, port: int, *, host: str = "127.0.0.1", more: dict[str, str] | None = None
) -> str:
    """Writes the server's configuration into its directory and returns the path."""
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
    """Returns the command that runs a server; raises `CommandFailed`, which says how to install
    one."""
    java = shutil.which("java")
    if java is None:
        raise CommandFailed(
            "ZooKeeper needs Java: apt-get install default-jre-headless, or brew install openjdk"
        )
    own = [word for name in _JVM_VARIABLES for word in shlex.split(os.environ.get(name, ""))]
    from odradek.local.stopping import ZOOKEEPER_MARK

    flags = [*_JVM_FLAGS, ZOOKEEPER_MARK, *own]
    return [java, *flags, "-cp", class_path or find_class_path(), _MAIN, config]


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
        f"no ZooKeeper server here: {install_line('spark')} brings one, so does"
        " apt-get install zookeeper; or name a directory of its jars in ODRADEK_ZOOKEEPER_JARS"
    )
