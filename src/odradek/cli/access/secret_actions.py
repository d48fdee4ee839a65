"""The actions of `odradek secrets`. No broker is asked."""

import argparse
import os
import sys

from odradek.config.encryption import (
    InvalidKey,
    NotDecrypted,
    decrypt,
    encrypt,
    read_key,
    write_key,
)
from odradek.config.secrets import (
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    Reference,
    references,
)
from odradek.config.setting import InvalidSetting
from odradek.tools.client_properties import read_unresolved, with_secrets
from odradek.tools.failures import CommandFailed
from odradek.tools.files import read_text
from odradek.tools.terminal import print_json, table

_PREFIX = "${encrypted:"


def create_key(arguments: argparse.Namespace) -> int:
    path = arguments.argument
    try:
        # The file is readable for its owner alone from its first moment on.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandFailed(
            f"{path} exists already, and values may be encrypted with its key; take another name"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(write_key(os.urandom(32)) + "\n")
    if arguments.json:
        print_json({"keyFile": path})
    else:
        print(f"Wrote a new key to {path}. Keep a copy: without it encrypted values are lost.")
    return 0


def encrypt_value(arguments: argparse.Namespace) -> int:
    key = _key(arguments)
    value = _typed("the value to encrypt: ")
    if not value:
        raise CommandFailed("there is no value to encrypt; type it or pipe it in")
    try:
        text = f"{_PREFIX}{encrypt(value, key, os.urandom(12))}}}"
    except NotDecrypted as error:
        raise CommandFailed(str(error)) from None
    if arguments.json:
        print_json({"value": text})
    else:
        print(text)
    return 0


def decrypt_value(arguments: argparse.Namespace) -> int:
    key = _key(arguments)
    text = (arguments.argument or sys.stdin.readline()).strip()
    try:
        value = decrypt(text.removeprefix(_PREFIX).removesuffix("}"), key)
    except NotDecrypted as error:
        raise CommandFailed(str(error)) from None
    if arguments.json:
        print_json({"value": value})
    else:
        print(value)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Shows which secrets a file refers to, and whether each can be read; never their values.
    Returns 1 if one cannot."""
    path = arguments.argument
    try:
        properties = read_unresolved(path)
    except InvalidSetting as error:
        raise CommandFailed(f"{path}: {error}") from None
    found = [
        (reference, _problem(properties, reference))
        for reference in dict.fromkeys(references(properties))
    ]
    if arguments.json:
        print_json(
            [
                {"setting": reference.name, "reference": reference.text, "problem": problem or None}
                for reference, problem in found
            ]
        )
    elif found:
        rows = [[one.name, one.text, problem or "can be read"] for one, problem in found]
        print(table(["SETTING", "REFERENCE", "STATE"], rows))
    else:
        print(f"{path} refers to no secrets.")
    return 1 if any(problem for _, problem in found) else 0


def _problem(properties: dict[str, str], reference: Reference) -> str:
    """Returns why the secrets in a setting cannot be read; nothing if they can."""
    others = {
        name: value
        for name, value in properties.items()
        if name.startswith(("config.providers", "odradek.secrets."))
    }
    try:
        with_secrets({**others, reference.name: properties[reference.name]})
    except InvalidSetting as error:
        return error.reason
    return ""


def _key(arguments: argparse.Namespace) -> bytes:
    path = arguments.key_file or os.environ.get(KEY_FILE_VARIABLE)
    text = read_text(path) if path else os.environ.get(KEY_VARIABLE)
    if text is None:
        raise CommandFailed(
            f"name the file with the key: --key-file FILE or ${KEY_FILE_VARIABLE};"
            " `odradek secrets create-key FILE` makes one"
        )
    try:
        return read_key(text)
    except InvalidKey as error:
        raise CommandFailed(f"{path or f'${KEY_VARIABLE}'}: {error}") from None


def _typed(prompt: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    from getpass import getpass

    return getpass(prompt)
