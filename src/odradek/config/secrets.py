"""Secrets that a properties file refers to, instead of containing them.

    ssl.keystore.password=${file:/etc/odradek/secrets.properties:keystore.password}
    sasl.jaas.config=... password="${env:BROKER_PASSWORD}";
    ssl.key.password=${dir:/run/secrets:key-password}
    ssl.truststore.password=${encrypted:AZ...}

Every properties file that Odradek reads is resolved here. The four providers need no declaration.
Kafka's `config.providers` lines are accepted: they may give a provider another name, and limit
which variables (`allowlist.pattern`) or paths (`allowed.paths`) it may read. A name that was
declared so has these limits; the class names are Kafka's. A setting that a client has changed is
never resolved: it would read files of the broker.

`${encrypted:...}` is decrypted with a key from `odradek.secrets.key.file`, or from the file or the
variable that ODRADEK_SECRETS_KEY_FILE or ODRADEK_SECRETS_KEY names (`config.encryption`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.config.properties import parse_properties
from odradek.config.redaction import is_sensitive_name, protect
from odradek.config.setting import InvalidSetting

# As in Kafka: a name, then a path if there is one, then a key.
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}]*)\}")

PROVIDERS: Final = "config.providers"
KEY_FILE: Final = "odradek.secrets.key.file"
KEY_FILE_VARIABLE: Final = "ODRADEK_SECRETS_KEY_FILE"
KEY_VARIABLE: Final = "ODRADEK_SECRETS_KEY"

_KAFKAS: Final = "org.apache.kafka.common.config.provider."
_CLASSES: Final = {
    "FileConfigProvider": "file",
    "EnvVarConfigProvider": "env",
    "DirectoryConfigProvider": "dir",
}
_LIMITS: Final = {"file": "allowed.paths", "dir": "allowed.paths", "env": "allowlist.pattern"}

ReadFile = Callable[[str], str]
"""Returns the text of a file; raises `OSError`."""


class _Provider(NamedTuple):
    """`kind` is file, env, dir or encrypted; `limit` is the text of its limit, or None."""

    kind: str
    limit: str | None = None


_BUILT_IN: Final = {
    "file": _Provider("file"),
    "env": _Provider("env"),
    "dir": _Provider("dir"),
    "directory": _Provider("dir"),
    "encrypted": _Provider("encrypted"),
}


class Reference(NamedTuple):
    """A reference in the value of a setting."""

    name: str
    provider: str
    path: str
    key: str

    @property
    def text(self) -> str:
        if self.provider == "encrypted":
            return "${encrypted:...}"
        return f"${{{':'.join(filter(None, (self.provider, self.path, self.key)))}}}"


def references(properties: Mapping[str, str]) -> list[Reference]:
    """Returns the references in properties, for `odradek secrets show`."""
    return [
        Reference(name, provider, path or "", key)
        for name, value in properties.items()
        for provider, path, key in _REFERENCE.findall(value)
    ]


def resolve(
    properties: Mapping[str, str], read_file: ReadFile, environment: Mapping[str, str]
) -> dict[str, str]:
    """Returns the properties with the values that they refer to, and without `config.providers`
    lines. Raises `InvalidSetting`, which never shows a secret. What comes from a provider is hidden
    in everything that this process writes (`config.redaction`), and so are passwords in plain
    text."""
    if not any("${" in value for value in properties.values()) and PROVIDERS not in properties:
        resolved = dict(properties)
    else:
        resolver = _Resolver(properties, read_file, environment)
        resolved = {
            name: resolver.value(name, value)
            for name, value in properties.items()
            if name != PROVIDERS and not name.startswith(f"{PROVIDERS}.")
        }
    resolved.pop(KEY_FILE, None)
    for name, value in resolved.items():
        if is_sensitive_name(name):
            protect(value)
    return resolved


class DeclaredProviders:
    """Resolves references in properties that came over the network, such as those of connectors.
    Only the providers that the process's own file declares are asked, within their limits."""

    def __init__(
        self, declarations: Mapping[str, str], read_file: ReadFile, environment: Mapping[str, str]
    ) -> None:
        """`declarations` are the `config.providers` lines. Raises `InvalidSetting`."""
        self._read_file = read_file
        self._environment = environment
        self._declared = _declared(declarations)

    @property
    def without_limit(self) -> list[str]:
        """The names of providers that may read everything that the process may."""
        return [name for name, provider in self._declared.items() if provider.limit is None]

    def has_references(self, value: str) -> bool:
        """Returns whether a value refers to something, of a provider that is declared or not."""
        return any(self._is_ours(found[1].strip()) for found in _REFERENCE.finditer(value))

    def resolve(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties with what they refer to. Text that looks like a reference to a
        provider that nobody knows stays as it is. Raises `InvalidSetting`."""
        for reference in references(properties):
            if self._is_ours(reference.provider) and reference.provider not in self._declared:
                raise _refused(
                    reference,
                    f"the worker's file does not declare the provider {reference.provider} with"
                    f" {PROVIDERS}",
                )
        resolver = _Resolver({}, self._read_file, self._environment, self._declared)
        return {
            name: resolver.value(name, value) if self.has_references(value) else value
            for name, value in properties.items()
        }

    def _is_ours(self, provider: str) -> bool:
        return provider in self._declared or provider in _BUILT_IN


class _Resolver:
    def __init__(
        self,
        properties: Mapping[str, str],
        read_file: ReadFile,
        environment: Mapping[str, str],
        providers: "Mapping[str, _Provider] | None" = None,
    ) -> None:
        self._is_strict = providers is None
        self._providers = _BUILT_IN | _declared(properties) if providers is None else providers
        self._read_file = read_file
        self._environment = environment
        self._key_file = properties.get(KEY_FILE)
        self._files: dict[str, dict[str, str]] = {}

    def value(self, name: str, value: str) -> str:
        def replaced(found: re.Match[str]) -> str:
            provider, path, key = found[1], found[2] or "", found[3]
            if not self._is_strict and provider.strip() not in self._providers:
                return found[0]
            return self._secret(Reference(name, provider.strip(), path, key))

        return _REFERENCE.sub(replaced, value)

    def _secret(self, reference: Reference) -> str:
        provider = self._providers.get(reference.provider)
        if provider is None:
            known = ", ".join(sorted(self._providers))
            raise _refused(
                reference,
                f"there is no provider of secrets {reference.provider}; there are {known}."
                f" {PROVIDERS} declares others",
            )
        match provider.kind:
            case "env":
                secret = self._variable(reference, provider)
            case "file":
                secret = self._of_file(reference, provider)
            case "dir":
                path = f"{reference.path.rstrip('/')}/{reference.key}"
                if not reference.path or "/" in reference.key or reference.key in ("", ".", ".."):
                    raise _refused(reference, "write it as ${dir:DIRECTORY:FILE}")
                secret = self._text(reference, provider, path)
            case _:
                secret = self._decrypted(reference)
        # A variable often holds what is no secret, such as a host name or the id of the broker.
        if provider.kind != "env" or is_sensitive_name(reference.name):
            protect(secret)
        return secret

    def _variable(self, reference: Reference, provider: _Provider) -> str:
        if reference.path:
            raise _refused(reference, "write it as ${env:NAME}")
        if provider.limit is not None and not re.fullmatch(provider.limit, reference.key):
            raise _refused(reference, f"allowlist.pattern {provider.limit} does not allow it")
        if reference.key not in self._environment:
            raise _refused(reference, f"the environment has no variable {reference.key}")
        return self._environment[reference.key]

    def _of_file(self, reference: Reference, provider: _Provider) -> str:
        path = reference.path
        if not path:
            raise _refused(reference, "write it as ${file:PATH:KEY}")
        if path not in self._files:
            text = self._text(reference, provider, path)
            try:
                self._files[path] = parse_properties(text)
            except InvalidSetting:
                raise _refused(reference, f"{path} is not a properties file") from None
        if reference.key not in self._files[path]:
            raise _refused(reference, f"{path} has no {reference.key}")
        return self._files[path][reference.key]

    def _text(self, reference: Reference, provider: _Provider, path: str) -> str:
        if provider.limit is not None and not _is_within(path, provider.limit):
            raise _refused(reference, f"allowed.paths {provider.limit} does not allow {path}")
        return self._read(reference, path)

    def _read(self, reference: Reference, path: str) -> str:
        try:
            return self._read_file(path)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            raise _refused(reference, f"{path} cannot be read: {why}") from None

    def _decrypted(self, reference: Reference) -> str:
        from odradek.config.encryption import (  # noqa: PLC0415 - only if there is one
            InvalidKey,
            NotDecrypted,
            decrypt,
            read_key,
        )

        try:
            return decrypt(reference.key, read_key(self._key_text(reference)))
        except (InvalidKey, NotDecrypted) as error:
            raise _refused(reference, str(error)) from None

    def _key_text(self, reference: Reference) -> str:
        path = self._key_file or self._environment.get(KEY_FILE_VARIABLE)
        if path:
            return self._read(reference, path)
        if KEY_VARIABLE in self._environment:
            return self._environment[KEY_VARIABLE]
        raise _refused(
            reference,
            f"the key is missing: name its file with {KEY_FILE} or ${KEY_FILE_VARIABLE}, or put the"
            f" key into ${KEY_VARIABLE}; `odradek secrets create-key` makes one",
        )


def _declared(properties: Mapping[str, str]) -> dict[str, _Provider]:
    """Returns the providers that `config.providers` lines declare."""
    providers = {}
    for name in filter(None, (part.strip() for part in properties.get(PROVIDERS, "").split(","))):
        setting = f"{PROVIDERS}.{name}.class"
        class_name = properties.get(setting, "").strip()
        kind = _CLASSES.get(class_name.removeprefix(_KAFKAS))
        if kind is None:
            allowed = ", ".join(_KAFKAS + known for known in _CLASSES)
            raise InvalidSetting(setting, class_name or "(empty)", f"must be one of {allowed}")
        limit = properties.get(f"{PROVIDERS}.{name}.param.{_LIMITS[kind]}")
        if limit is not None and kind == "env":
            try:
                re.compile(limit)
            except re.error as error:
                raise InvalidSetting(
                    f"{PROVIDERS}.{name}.param.{_LIMITS[kind]}", limit, f"not a pattern: {error}"
                ) from None
        providers[name] = _Provider(kind, limit)
    return providers


def _is_within(path: str, allowed: str) -> bool:
    if ".." in path.split("/"):
        return False
    directories = (part.strip().rstrip("/") for part in allowed.split(",") if part.strip())
    return any(path == directory or path.startswith(f"{directory}/") for directory in directories)


def _refused(reference: Reference, reason: str) -> InvalidSetting:
    return InvalidSetting(reference.name, reference.text, reason)
