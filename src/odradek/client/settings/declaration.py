"""How a client setting is declared: once, as a field of a frozen dataclass.

Each field carries its check and its documentation. Its name in Kafka's properties files is the
field's name with dots: `linger_ms` is `linger.ms`. From the one declaration come the keyword
arguments, the reading of properties, the checks and the documentation.

Invariant: an instance of `Settings` holds only values that passed their checks.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, TypeVar

from odradek.client.errors import SettingsError

_log = logging.getLogger("odradek.client")

T = TypeVar("T")

# What Kafka's clients know under these names and this one does not do: with any value but those
# that ask for nothing, the setting is refused.
_REFUSED = {
    "interceptor.classes": ("interceptors are Java classes, which are not loaded", ()),
    "metric.reporters": (
        "reporters are Java classes, which are not loaded",
        ("org.apache.kafka.common.metrics.JmxReporter",),
    ),
    "security.providers": ("providers are Java classes, which are not loaded", ()),
    "config.providers": ("values are not looked up: write them into the file", ()),
}
# Settings of Kafka's clients that change nothing here; they are reported, unless set to these
# values, which is what this client does.
_NO_EFFECT = {
    "auto.include.jmx.reporter": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips",),
    "config.providers.": (),
    "enable.metrics.push": ("false",),
    "metrics.num.samples": ("2",),
    "metrics.recording.level": ("INFO",),
    "metrics.sample.window.ms": ("30000",),
    "metrics.context.": (),
}
_SECURITY = ("ssl.", "sasl.")


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of a setting beside its name and default."""

    doc: str
    read: Callable[[str], object]
    check: Callable[[object], object]


def _setting(default: T, doc: str, read: Callable[[str], object], check: Any) -> T:
    made: T = field(default=default, metadata={"setting": Declared(doc, read, check)})
    return made


def integer(default: int, doc: str, *, low: int | None = 0, high: int | None = None) -> int:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SettingsError("must be a whole number")
        if low is not None and value < low:
            raise SettingsError(f"must be at least {low}")
        if high is not None and value > high:
            raise SettingsError(f"must be at most {high}")
        return value

    return _setting(default, doc, _read_integer, check)


def boolean(default: bool, doc: str) -> bool:
    def check(value: object) -> object:
        if not isinstance(value, bool):
            raise SettingsError("must be true or false")
        return value

    return _setting(default, doc, _read_boolean, check)


def choice(default: str, doc: str, options: Sequence[str], *, fold: bool = False) -> str:
    def check(value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or (value.lower() if fold else value) not in options:
            raise SettingsError(f"must be one of {', '.join(options)}")
        return value.lower() if fold else value

    return _setting(default, doc, str, check)


def text(default: str, doc: str) -> str:
    def check(value: object) -> object:
        if not isinstance(value, str):
            raise SettingsError("must be text")
        return value

    return _setting(default, doc, str, check)


def optional_text(doc: str) -> str | None:
    def check(value: object) -> object:
        if value is not None and (not isinstance(value, str) or not value):
            raise SettingsError("must be text that is not empty")
        return value

    default: str | None = None
    return _setting(default, doc, str, check)


def checked(
    default: T, doc: str, check: Callable[[object], object], read: Callable[[str], object] = str
) -> T:
    """A setting with rules of its own."""
    return _setting(default, doc, read, check)


def _read_integer(value: str) -> object:
    try:
        return int(value)
    except ValueError:
        raise SettingsError("must be a whole number") from None


def _read_boolean(value: str) -> object:
    folded = value.lower()
    if folded not in {"true", "false"}:
        raise SettingsError("must be true or false")
    return folded == "true"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every group of settings can do; the fields are in its subclasses."""

    def __post_init__(self) -> None:
        for item in fields(self):
            declared: Declared = item.metadata["setting"]
            try:
                value = declared.check(getattr(self, item.name))
            except SettingsError as error:
                given = getattr(self, item.name)
                raise SettingsError(f"{_dotted(item.name)}={given!r}: {error}") from None
            object.__setattr__(self, item.name, value)
        self._check_together()

    def _check_together(self) -> None:
        """Checks what depends on more than one setting; raises `SettingsError`."""

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """From keyword arguments; an unknown name is a mistake in a program, so it raises."""
        known = {item.name for item in fields(cls)}
        if unknown := sorted(name for name in options if name not in known):
            guess = _hint(_dotted(unknown[0]), map(_dotted, known)).replace(".", "_")
            raise SettingsError(
                f"unknown setting {', '.join(unknown)}: see {cls.__name__} for the names{guess}"
            )
        return cls(**options)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], **overrides: object) -> Self:
        """From Kafka's dotted names and text values; an unknown name is only warned about.

        `overrides` are keyword arguments that win over the properties.
        """
        return cls.from_options(cls.read_properties(properties) | overrides)

    @classmethod
    def read_properties(cls, properties: Mapping[str, str]) -> dict[str, object]:
        """The properties as keyword arguments.

        Nothing is dropped in silence: a name that is not declared is refused where ignoring it
        would deceive (security, Java classes), and reported otherwise.
        """
        declared = {_dotted(item.name): item for item in fields(cls)}
        options: dict[str, object] = {}
        for name, value in properties.items():
            item = declared.get(name)
            if item is None:
                _judge_undeclared(name, value.strip(), properties, declared)
                continue
            try:
                options[item.name] = item.metadata["setting"].read(value.strip())
            except SettingsError as error:
                raise SettingsError(f"{name}={value!r}: {error}") from None
        return options

    @classmethod
    def describe(cls) -> list[tuple[str, object, str]]:
        """Kafka's name, default and documentation of each setting."""
        return [
            (
                _dotted(item.name),
                None if item.default is MISSING else item.default,
                item.metadata["setting"].doc,
            )
            for item in fields(cls)
        ]


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _judge_undeclared(
    name: str, value: str, properties: Mapping[str, str], declared: Iterable[str]
) -> None:
    """Refuses or reports a property that is not a setting of this client."""
    if not value:
        return
    if name in _REFUSED:
        reason, harmless = _REFUSED[name]
        if value not in harmless:
            raise SettingsError(f"{name}={value}: {reason}; leave it out")
    elif name.startswith(_SECURITY):
        _judge_security(name, properties)
    elif idle := [usual for known, usual in _NO_EFFECT.items() if name.startswith(known)]:
        if value not in idle[0]:
            _log.warning("%s has no effect in this client", name)
    else:
        hint = _hint(name, declared)
        _log.warning("%s is not a setting of this client and is ignored%s", name, hint)


def _judge_security(name: str, properties: Mapping[str, str]) -> None:
    """Values are not shown: they may be passwords."""
    protocol = properties.get("security.protocol")
    if protocol is None:
        raise SettingsError(
            f"{name}: this client speaks PLAINTEXT only, without TLS and SASL; set"
            " security.protocol=PLAINTEXT if that is meant"
        )
    # Any other protocol is refused by the check of security.protocol itself.
    if protocol.strip().upper() == "PLAINTEXT":
        _log.warning("%s has no effect with security.protocol=PLAINTEXT", name)


def _hint(name: str, known: Iterable[str]) -> str:
    from odradek.config.spelling import Speller  # noqa: PLC0415 - only for mistakes

    return Speller(known).hint(name)
