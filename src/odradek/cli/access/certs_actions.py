"""The actions of `odradek certs`, after its flags are parsed."""

import argparse
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import cannot_create
from odradek.tools.terminal import print_json
from odradek.world import SystemClock
from odradek.world.disk import OsDisk
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from odradek.security.certificates import CertificateDirectory, Described

_DEFAULT_NAME = "broker"
# From then on `show` says how to renew.
_SOON_DAYS = 30


def create(arguments: argparse.Namespace) -> int:
    directory = _directory(arguments)
    password = _password(arguments)
    from odradek.security.certificates import LOCAL_HOSTS

    with _problems_explained(), _files_made():
        made = [directory.authority_path] if directory.create_authority() else []
        for name in arguments.name or [_DEFAULT_NAME]:
            made.append(directory.create(name, arguments.host or LOCAL_HOSTS, arguments.days))
            if password is not None:
                made.append(directory.write_pkcs12(name, password))
    _print(arguments, "created", made)
    return 0


def renew(arguments: argparse.Namespace) -> int:
    directory = _directory(arguments)
    names = arguments.name or directory.names()
    if not names:
        raise CommandFailed(_nothing_in(arguments.dir))
    password = _password(arguments)
    made = []
    with _problems_explained():
        for name in names:
            made.append(directory.renew(name, arguments.days))
            if password is not None:
                made.append(directory.write_pkcs12(name, password))
    _print(arguments, "renewed", made)
    return 0


def show(arguments: argparse.Namespace) -> int:
    directory = _directory(arguments)
    names = arguments.name or directory.names()
    if not names and not OsDisk().exists(directory.authority_path):
        raise CommandFailed(_nothing_in(arguments.dir))
    paths = [directory.path_of(name) for name in names]
    with _problems_explained():
        found = [directory.describe(path) for path in [directory.authority_path, *paths]]
    if arguments.json:
        print_json([_as_json(directory, one) for one in found])
        return 0
    for one in found:
        _print_one(directory, one)
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "create": create,
    "renew": renew,
    "show": show,
}


@contextmanager
def _problems_explained() -> Iterator[None]:
    from odradek.security.certificates import CertificateProblem

    try:
        yield
    except CertificateProblem as problem:
        raise CommandFailed(str(problem)) from None


@contextmanager
def _files_made() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CommandFailed(cannot_create(error, "--dir ./certs")) from None


def _directory(arguments: argparse.Namespace) -> "CertificateDirectory":
    try:
        from odradek.security.certificates import CertificateDirectory
    except ImportError:
        raise CommandFailed(
            f"certificates need the package cryptography: {install_line('security')}"
        ) from None
    return CertificateDirectory(OsDisk(), SystemClock(), arguments.dir.rstrip("/") or "/")


def _password(arguments: argparse.Namespace) -> str | None:
    """Returns the password of PKCS12 stores. It is read before anything is made."""
    if arguments.pkcs12 is None:
        return None
    try:
        password = OsDisk().read(arguments.pkcs12).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"cannot read the password in {arguments.pkcs12}: {error}") from None
    if not password:
        raise UsageError(f"{arguments.pkcs12} is empty; write a password into it")
    return password


def _nothing_in(directory: str) -> str:
    return (
        f"there are no certificates in {directory}; make some with"
        f" `odradek certs create --dir {shlex.quote(directory)}`"
    )


def _print(arguments: argparse.Namespace, what: str, paths: list[str]) -> None:
    if arguments.json:
        print_json({what: paths})
        return
    for path in paths:
        print(f"{what} {path}")


def _print_one(directory: "CertificateDirectory", one: "Described") -> None:
    days = directory.days_left(one)
    until = f"{one.not_after:%Y-%m-%d}"
    print(f"{one.path}: {one.subject}")
    if one.names:
        print(f"  for {', '.join(one.names)}")
    if days < 0:
        print(f"  EXPIRED on {until}")
    else:
        print(f"  valid until {until}, {days} days")
    if days < _SOON_DAYS and not one.is_authority:
        name = one.path.rpartition("/")[2].removesuffix(".pem")
        print(f"  renew it: odradek certs renew --dir {directory.directory} --name {name}")


def _as_json(directory: "CertificateDirectory", one: "Described") -> dict[str, object]:
    return {
        "path": one.path,
        "subject": one.subject,
        "issuer": one.issuer,
        "names": list(one.names),
        "authority": one.is_authority,
        "not_before": one.not_before.isoformat(),
        "not_after": one.not_after.isoformat(),
        "days_left": directory.days_left(one),
    }
