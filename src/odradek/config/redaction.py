"""Keeps secrets out of everything that is written: logs, errors, crash output, audit events.

A secret is known here from the moment at which it is read: the value of a setting that is a
password, and a value that came from a provider of secrets (`config.secrets`). `redact` replaces
every occurrence in a text by `(hidden)`. It is the second line of defence: code does not print
passwords in the first place, but an error of a library may quote what it was given.

Secrets belong to the process, as loggers do. Short ones are not replaced: they occur in other
words, and a text with holes in it would tell more than it hides. A password of three characters
protects nothing anyway.
"""

import re
from typing import Final

HIDDEN: Final = "(hidden)"
MIN_LENGTH: Final = 4
# Values of switches, such as `tokenauth="true"` of a JAAS line: they occur everywhere.
_SWITCHES: Final = ("true", "false")
# A process that reads ever new passwords must not fill the memory. The oldest are forgotten.
_MAX_SECRETS: Final = 10_000

# The options of a line of JAAS whose values are secrets: `password="..."`, `user_ada="..."`.
_JAAS_OPTION: Final = re.compile(
    r"(?:\w*(?:password|secret|token)\w*|user_\S+?)\s*=\s*"
    r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
    re.IGNORECASE,
)
_WORDS_OF_SECRETS: Final = ("password", "secret", "jaas.config", "token", "credential")
_NOT_SECRET: Final = (".file", ".path", ".location", ".class", ".url", ".name", ".type", ".ms")

_secrets: dict[str, None] = {}
_pattern: re.Pattern[str] | None = None


def is_sensitive_name(name: str) -> bool:
    """Returns whether a setting that is not declared is a secret, going by its name."""
    lowered = name.lower()
    if lowered.endswith((".keystore.key", ".private.key", "private_key", ".encryption.key")):
        return True
    return any(word in lowered for word in _WORDS_OF_SECRETS) and not lowered.endswith(_NOT_SECRET)


def protect(text: str) -> None:
    """Hides a secret in everything that is written from now on, and the passwords in it if it is a
    line of JAAS."""
    for option in _JAAS_OPTION.finditer(text):
        _remember(next(value for value in option.groups() if value is not None))
    _remember(text.strip())


def _remember(secret: str) -> None:
    global _pattern  # noqa: PLW0603 - secrets belong to the process
    if len(secret) < MIN_LENGTH or secret in _secrets or secret.lower() in _SWITCHES:
        return
    if len(_secrets) >= _MAX_SECRETS:
        del _secrets[next(iter(_secrets))]
    _secrets[secret] = None
    _pattern = None


def redact(text: str) -> str:
    """Returns the text without the secrets that this process knows."""
    global _pattern  # noqa: PLW0603 - as above
    if not _secrets:
        return text
    if _pattern is None:
        # The longest first: a secret may begin with another one.
        shown = {form for secret in _secrets for form in _forms(secret)}
        ordered = sorted(shown, key=len, reverse=True)
        _pattern = re.compile("|".join(map(re.escape, ordered)))
    return _pattern.sub(HIDDEN, text)


def _forms(secret: str) -> set[str]:
    """Returns how a secret may be shown: JSON, Python and our logs escape quotes, line ends and
    characters outside ASCII, each in its way."""
    if secret.isascii() and secret.isprintable() and not set(secret) & set("\"'\\"):
        return {secret}
    import json  # noqa: PLC0415 - few passwords need it

    lines = secret.replace("\n", "\\n").replace("\r", "\\r")
    return {secret, lines, repr(secret)[1:-1], json.dumps(secret)[1:-1]}


def forget_all() -> None:
    """Forgets every secret; for tests."""
    global _pattern  # noqa: PLW0603 - as above
    _secrets.clear()
    _pattern = None
