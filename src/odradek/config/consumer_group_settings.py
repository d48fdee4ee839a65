"""Settings of single consumer groups, which override the broker's settings `group.consumer.*`.

The broker's settings limit the values of a group. If a limit is narrowed later, an override
outside it is still used: the new limit applies to new overrides.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.config.coordinator_settings import GroupSettings
from odradek.config.describe import Description, Source, SynonymDescription
from odradek.config.kinds import integer
from odradek.config.setting import InvalidSetting, Setting, Settings
from odradek.config.spelling import Speller


class _Declarations(Settings):
    session_timeout_ms = integer(
        "consumer.session.timeout.ms",
        45_000,
        "The session timeout of the members of this group. A member whose heartbeats do not "
        "arrive for this long is removed.",
        at_least=1,
    )
    heartbeat_interval_ms = integer(
        "consumer.heartbeat.interval.ms",
        5_000,
        "How often the members of this group send heartbeats.",
        at_least=1,
    )


GROUP_DECLARED: Final[Mapping[str, Setting[object]]] = _Declarations.declared
_SPELLER: Final = Speller(_Declarations.declared)


class ConsumerGroupSettings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int

    @classmethod
    def of(cls, broker: GroupSettings, overrides: Mapping[str, str]) -> "ConsumerGroupSettings":
        """Returns the settings of a group with these overrides.

        No override is used if one is not a number, which can only happen if the store was edited by
        hand.
        """
        ours = cls(
            broker.group_consumer_session_timeout_ms, broker.group_consumer_heartbeat_interval_ms
        )
        if not overrides:
            return ours
        try:
            return ours._replace(**_values(overrides))
        except InvalidSetting:
            return ours


def _values(overrides: Mapping[str, str]) -> dict[str, int]:
    values = {}
    for setting in (_Declarations.session_timeout_ms, _Declarations.heartbeat_interval_ms):
        if setting.name in overrides:
            values[setting.attribute] = setting.parse(overrides[setting.name])
    return values


def check_group_overrides(overrides: Mapping[str, str], broker: GroupSettings) -> None:
    """Raises `InvalidSetting` if a group cannot have these overrides."""
    for name, text in overrides.items():
        if name not in GROUP_DECLARED:
            hint = _SPELLER.hint(name)
            raise InvalidSetting(name, text, f"there is no group setting of this name{hint}")
    values = _values(overrides)
    for setting, least, most in (
        (
            _Declarations.session_timeout_ms,
            broker.group_consumer_min_session_timeout_ms,
            broker.group_consumer_max_session_timeout_ms,
        ),
        (
            _Declarations.heartbeat_interval_ms,
            broker.group_consumer_min_heartbeat_interval_ms,
            broker.group_consumer_max_heartbeat_interval_ms,
        ),
    ):
        value = values.get(setting.attribute)
        if value is not None and not least <= value <= most:
            raise InvalidSetting(setting.name, value, f"the broker allows groups {least} to {most}")
    whole = ConsumerGroupSettings.of(broker, overrides)
    if whole.session_timeout_ms <= whole.heartbeat_interval_ms:
        raise InvalidSetting(
            _Declarations.session_timeout_ms.name,
            whole.session_timeout_ms,
            f"it must be more than the heartbeat interval, {whole.heartbeat_interval_ms}",
        )


def describe_group(
    broker: GroupSettings, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[Description]:
    """Returns all settings of a group, or those named; the group need not exist."""
    whole = ConsumerGroupSettings.of(broker, overrides)
    wanted_names = set(GROUP_DECLARED if names is None else names)
    described = []
    for setting in GROUP_DECLARED.values():
        if setting.name not in wanted_names:
            continue
        value = setting.text(getattr(whole, setting.attribute))
        is_own = setting.name in overrides
        described.append(
            Description(
                name=setting.name,
                value=value,
                source=Source.GROUP if is_own else Source.DEFAULT,
                is_sensitive=False,
                read_only=False,
                kind=int(setting.kind),
                synonyms=(SynonymDescription(setting.name, value, Source.GROUP),) if is_own else (),
                documentation=setting.doc,
            )
        )
    return described
