"""Settings of subscriptions to client metrics (KIP-714): which clients push which metrics, and how
often.

A subscription is a resource of its own kind in DescribeConfigs and IncrementalAlterConfigs. It
exists as long as it has a setting.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from odradek.config.describe import Description, Source, SynonymDescription
from odradek.config.kinds import integer, names
from odradek.config.setting import InvalidSetting, Setting, Settings
from odradek.config.spelling import Speller

T = TypeVar("T")

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
# What a pattern of `match` can be about.
CLIENT_ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _complain_about_patterns(value: tuple[str, ...]) -> str | None:
    for pattern in filter(None, value):
        name, equals, expression = pattern.partition("=")
        if not equals or name.strip() not in CLIENT_ATTRIBUTES:
            return f"{pattern!r} does not begin with one of {', '.join(CLIENT_ATTRIBUTES)} and '='"
        try:
            re.compile(expression.strip())
        except re.error as error:
            return f"{expression!r} is not a regular expression: {error}"
    return None


class _Declarations(Settings):
    metrics = names(
        "metrics",
        (),
        "Prefixes of the names of metrics that clients push, separated by commas. * means all "
        "metrics, an empty list none.",
    )
    interval_ms = integer(
        "interval.ms",
        DEFAULT_INTERVAL_MS,
        "How often clients push.",
        at_least=100,
        at_most=3_600_000,
    )
    match = names(
        "match",
        (),
        "Which clients are meant: attribute=regular expression, separated by commas. All of them "
        f"must match. The attributes are {', '.join(CLIENT_ATTRIBUTES)}. Empty: all clients.",
        check=_complain_about_patterns,
    )


CLIENT_METRICS_DECLARED: Final[Mapping[str, Setting[object]]] = _Declarations.declared
_SPELLER: Final = Speller(_Declarations.declared)


class ClientMetricsSubscription(NamedTuple):
    """One subscription, as the broker compares it with clients."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, "re.Pattern[str]"], ...]

    @classmethod
    def of(cls, overrides: Mapping[str, str]) -> "ClientMetricsSubscription":
        """Raises `InvalidSetting`, which can only happen if the store was edited by hand."""
        settings: tuple[tuple[str, ...], int, tuple[str, ...]] = (
            _value(_Declarations.metrics, overrides),
            _value(_Declarations.interval_ms, overrides),
            _value(_Declarations.match, overrides),
        )
        metrics, interval_ms, match = settings
        pairs = (pattern.partition("=") for pattern in match if pattern)
        return cls(
            tuple(filter(None, metrics)),
            interval_ms,
            tuple((name.strip(), re.compile(expression.strip())) for name, _, expression in pairs),
        )

    def matches(self, client: Mapping[str, str]) -> bool:
        """Returns whether a client is meant, by its attributes (`CLIENT_ATTRIBUTES`)."""
        return all(
            pattern.fullmatch(client.get(name, "")) is not None for name, pattern in self.patterns
        )


def _value(setting: Setting[T], overrides: Mapping[str, str]) -> T:
    text = overrides.get(setting.name)
    return setting.default if text is None else setting.parse(text)


def check_client_metrics_overrides(overrides: Mapping[str, str]) -> None:
    """Raises `InvalidSetting` if a subscription cannot have these settings."""
    for name, text in overrides.items():
        if name not in CLIENT_METRICS_DECLARED:
            hint = _SPELLER.hint(name)
            raise InvalidSetting(name, text, f"subscriptions have no setting of this name{hint}")
    ClientMetricsSubscription.of(overrides)


def describe_client_metrics(
    overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[Description]:
    """Returns all settings of a subscription that exists, or those named; none of one that does
    not, as Kafka does."""
    wanted_names = set(CLIENT_METRICS_DECLARED if names is None else names)
    return [
        _description(setting, overrides.get(setting.name))
        for setting in CLIENT_METRICS_DECLARED.values()
        if overrides and setting.name in wanted_names
    ]


def _description(setting: Setting[object], own: str | None) -> Description:
    value = setting.text(setting.default) if own is None else own
    synonym = SynonymDescription(setting.name, value, Source.CLIENT_METRICS)
    return Description(
        name=setting.name,
        value=value,
        source=Source.DEFAULT if own is None else Source.CLIENT_METRICS,
        is_sensitive=False,
        read_only=False,
        kind=int(setting.kind),
        synonyms=() if own is None else (synonym,),
        documentation=setting.doc,
    )
