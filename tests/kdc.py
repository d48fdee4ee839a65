"""A Kerberos key distribution centre of MIT for tests: a realm of its own, on loopback.

It needs no privileges and leaves the system's /etc/krb5.conf alone: programs find the realm by the
variable KRB5_CONFIG (`Kdc.environment`), and this process does inside `Kdc.used_here()`.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker_process import ToolMissing

REALM = "ODRADEK.TEST"
_NEEDED = "krb5-kdc krb5-admin-server krb5-user"
_COMPILED = "on Debian: apt-get install libkrb5-dev gcc python3-dev, then scripts/setup dev"
_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def tool(name: str) -> str:
    found = shutil.which(name, path=_SBIN)
    if found is None:
        raise ToolMissing(f"{name} is missing; on Debian: apt-get install {_NEEDED}")
    return found


def require_kerberos() -> None:
    """Raises `ToolMissing` if there is no KDC here, or our own clients cannot use one."""
    if importlib.util.find_spec("gssapi") is None:
        raise ToolMissing(f"gssapi is missing; {_COMPILED}")
    for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit"):
        tool(name)


class Kdc:
    """The realm and its files; the server runs inside `running()`."""

    def __init__(self, directory: Path, realm: str = REALM, port: int | None = None) -> None:
        require_kerberos()
        self.directory = directory
        self.realm = realm
        directory.mkdir(parents=True, exist_ok=True)
        self.port = port or _free_port()
        self.config = directory / "krb5.conf"
        self._profile = directory / "kdc.conf"
        self.write_config(f"127.0.0.1:{self.port}")
        self._profile.write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n"
            f" kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n {realm} = {{\n"
            f"  database_name = {directory}/principal\n"
            f"  key_stash_file = {directory}/stash\n"
            f"  acl_file = {directory}/kadm5.acl\n"
            "  max_life = 10h\n  max_renewable_life = 7d\n"
            "  supported_enctypes = aes256-cts:normal aes128-cts:normal\n }\n"
            f"[logging]\n kdc = FILE:{directory}/kdc.log\n"
        )
        self._run("kdb5_util", "-r", realm, "create", "-s", "-P", "master-of-a-test", "-W")

    def write_config(self, kdc: str, *, more: str = "") -> None:
        """Writes what clients read: where the KDC is. `more` is added to [libdefaults]."""
        self.config.write_text(
            f"[libdefaults]\n default_realm = {self.realm}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
            f" default_ccache_name = FILE:{self.directory}/ccache\n{more}"
            f"[realms]\n {self.realm} = {{\n  kdc = {kdc}\n }}\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables that programs need to use this realm."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self._profile),
            "KRB5RCACHEDIR": str(self.directory),
        }

    @contextmanager
    def used_here(self) -> Iterator[None]:
        """This process, and those that it starts meanwhile, use this realm."""
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    @contextmanager
    def running(self) -> Iterator["Kdc"]:
        process = subprocess.Popen(
            [tool("krb5kdc"), "-n", "-r", self.realm],
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait_until_it_answers()
            yield self
        finally:
            process.terminate()
            process.wait(timeout=30)

    def _wait_until_it_answers(self) -> None:
        end_s = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < end_s, (self.directory / "kdc.log").read_text()
                time.sleep(0.02)
            else:
                return

    def keytab(self, name: str, *principals: str) -> str:
        """Makes principals with random keys, and returns the path of a keytab that has them."""
        path = self.directory / f"{name}.keytab"
        for principal in principals:
            self.admin("addprinc", "-randkey", principal)
            self.add_to_keytab(path, principal)
        return str(path)

    def add_to_keytab(self, path: str | Path, principal: str) -> None:
        """Gives a principal a new key, as an operator does who rotates it."""
        self.admin("ktadd", "-k", str(path), principal)

    def admin(self, *words: str) -> str:
        return self._run("kadmin.local", "-r", self.realm, *words)

    def kinit(self, principal: str, keytab: str, cache: str, *more: str) -> None:
        self._run("kinit", "-k", "-t", keytab, "-c", cache, *more, principal)

    def _run(self, name: str, *words: str) -> str:
        done = subprocess.run(
            [tool(name), *words],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, (name, words, done.stdout, done.stderr)
        return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def jaas(keytab: str, principal: str, *, more: str = "") -> str:
    """The JAAS line of a log-in by a keytab."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        f' keyTab="{keytab}" principal="{principal}"{more};'
    )
