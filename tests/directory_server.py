"""A real directory for tests: OpenLDAP's slapd on the loopback interface, with some users."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker_process import ToolMissing
from tests.certificates import Authority

BASE = "dc=example,dc=com"
BIND_DN, BIND_PASSWORD = f"cn=search,{BASE}", "searching"
_SLAPD = Path("/usr/sbin/slapd")
_CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {directory}/pid
TLSCertificateFile {directory}/server.pem
TLSCertificateKeyFile {directory}/server.key
database mdb
suffix "dc=example,dc=com"
rootdn "cn=search,dc=example,dc=com"
rootpw searching
directory {directory}/db
access to attrs=userPassword by anonymous auth by * none
access to * by users read by anonymous read
"""
_USER = """
dn: {dn},ou=people,dc=example,dc=com
objectClass: inetOrgPerson
cn: {uid}
sn: {uid}
uid: {uid}
userPassword: {uid} secret
{more}"""
# The names that a user has who wants to be somebody else.
USERS = {
    "ada": ("uid=ada", "seeAlso: cn=shop,ou=groups,dc=example,dc=com"),
    "bob": ("uid=bob", "uid: robert"),
    "boss": ("uid=boss", ""),
    "a,b=c+d": (r"uid=a\,b\=c\+d", ""),
    "*": ("uid=*", ""),
    "élodie": ("uid=élodie", ""),
}
_GROUP = """
dn: cn={name},ou=groups,dc=example,dc=com
objectClass: groupOfNames
cn: {name}
member: uid={member},ou=people,dc=example,dc=com
"""


class DirectoryServer(NamedTuple):
    port: int
    tls_port: int
    truststore: Path

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://localhost:{self.tls_port}"


def slapd() -> Path:
    if not _SLAPD.exists():
        raise ToolMissing("OpenLDAP is missing; on Debian: apt-get install slapd")
    return _SLAPD


@contextlib.contextmanager
def running_directory(program: Path, directory: Path) -> Iterator[DirectoryServer]:
    authority = Authority()
    issued = authority.issue("localhost")
    (directory / "server.pem").write_text(issued.chain_pem)
    (directory / "server.key").write_text(issued.key_pem)
    (directory / "ca.pem").write_text(authority.pem)
    (directory / "db").mkdir()
    conf = directory / "slapd.conf"
    conf.write_text(_CONF.format(directory=directory))
    (directory / "data.ldif").write_text(_ldif())
    load = [str(program), "-T", "add", "-f", str(conf), "-l", str(directory / "data.ldif")]
    subprocess.run(load, check=True, capture_output=True, timeout=60)
    port, tls_port = _free_ports()
    urls = f"ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}"
    process = subprocess.Popen(
        [program, "-f", conf, "-h", urls, "-d", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(process, port)
        yield DirectoryServer(port, tls_port, directory / "ca.pem")
    finally:
        process.terminate()
        process.wait(10)


def _ldif() -> str:
    parts = [
        "dn: dc=example,dc=com\nobjectClass: dcObject\nobjectClass: organization\no: e",
        "dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people",
        "dn: ou=groups,dc=example,dc=com\nobjectClass: organizationalUnit\nou: groups",
        *(_USER.format(dn=dn, uid=uid, more=more) for uid, (dn, more) in USERS.items()),
        *(_GROUP.format(name=name, member="ada") for name in ("shop", "readers")),
        _GROUP.format(name="admins", member="bob"),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline_s = time.monotonic() + 30
    while True:
        assert process.poll() is None, "slapd has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < deadline_s, "slapd does not listen"
        time.sleep(0.02)
