"""SCRAM credentials on the command line, as Kafka's tools write them.

    configs --alter --entity-type users --entity-name ada --add-config 'SCRAM-SHA-512=[password=x]'
    storage format --add-scram 'SCRAM-SHA-256=[name=ada,password=x]'

`iterations=8192` may stand before the password. With `--add-scram` the salt and the salted password
may be given in base 64 (`salt=`, `saltedpassword=`) in place of the password.
"""

import base64
import binascii
import re
from typing import Final

from odradek.client.admin.users import ScramUpsertion
from odradek.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from odradek.tools.failures import UsageError

# The password is the rest: it may have commas.
_PASSWORD: Final = re.compile(r"(?:iterations=(?P<iterations>[^,]*),)?password=(?P<password>.*)")
_ITERATIONS_BEHIND: Final = re.compile(r",\s*iterations=\d*$")
_FIELD: Final = re.compile(r"(?P<name>[a-z]+)=(?P<value>\"[^\"]*\"|[^,]*)(?:,|$)")
_FIELDS: Final = frozenset({"name", "iterations", "salt", "saltedpassword"})


def credential_of_config(user: str, mechanism: ScramMechanism, value: str) -> ScramUpsertion:
    """Returns the credential of `--add-config MECHANISM=[iterations=N,password=...]`, whose value
    has lost its brackets."""
    found = _PASSWORD.fullmatch(value)
    if found is None:
        raise UsageError(
            f"write --add-config '{mechanism.kafka_name}=[password=...]', with iterations=N before"
            " the password if you like"
        )
    if _ITERATIONS_BEHIND.search(found["password"]):
        # Kafka's tool takes them for a part of the password, and nobody can log in by the other.
        raise UsageError(
            "iterations=N comes before the password, which is all that follows:"
            f" --add-config '{mechanism.kafka_name}=[iterations=N,password=...]'"
        )
    return _of_password(user, mechanism, found["password"], found["iterations"])


def credential_of_flag(text: str) -> ScramUpsertion:
    """Returns the credential of `--add-scram`. Messages do not show it: it holds a password."""
    name, _, rest = text.partition("=")
    mechanism = ScramMechanism.named(name.strip())
    if mechanism is None or not rest.startswith("[") or not rest.endswith("]"):
        raise UsageError(
            "write --add-scram 'SCRAM-SHA-512=[name=USER,password=...]', or SCRAM-SHA-256"
        )
    fields, _, password = rest[1:-1].partition("password=")
    salted = fields.endswith("salted")
    if salted or not password:
        fields, password = rest[1:-1], ""
    known = _fields(fields.rstrip(","))
    user = known.get("name", "")
    if not user:
        raise UsageError("--add-scram needs the name of the user: [name=USER,password=...]")
    if password and not salted:
        if "salt" in known:
            raise UsageError("--add-scram with a salt needs saltedpassword=, not password=")
        return _of_password(user, mechanism, password.strip('"'), known.get("iterations"))
    if "salt" not in known or "saltedpassword" not in known:
        raise UsageError("--add-scram needs password=..., or salt= and saltedpassword= in base 64")
    return ScramUpsertion(
        user,
        mechanism,
        _iterations(known.get("iterations")),
        _decoded(known["salt"]),
        _decoded(known["saltedpassword"]),
    )


def _fields(text: str) -> dict[str, str]:
    known: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _FIELD.match(text, position)
        if found is None or found["name"] not in _FIELDS:
            raise UsageError(
                f"--add-scram has {', '.join(sorted(_FIELDS))} and password, in that order, and"
                " nothing else"
            )
        known[found["name"]] = found["value"].strip('"')
        position = found.end()
    return known


def _of_password(
    user: str, mechanism: ScramMechanism, password: str, iterations: str | None
) -> ScramUpsertion:
    if not password:
        raise UsageError(f"the password of {user} is empty")
    return ScramUpsertion.of_password(user, password, mechanism, _iterations(iterations))


def _iterations(text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise UsageError(f"iterations={text}: take {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return int(text)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UsageError("salt= and saltedpassword= are base 64") from None
