"""May a topic have these settings? What one setting cannot tell: whether they fit together, and
whether brokers can do what they ask for.

Brokers ask it before they create a topic or change its settings. The limits of each setting alone
are in its declaration (`topic_settings`).
"""

import re
from collections.abc import Mapping

from odradek.config.key_settings import NO_PROVIDER
from odradek.config.setting import InvalidSetting
from odradek.config.topic_settings import TopicSettings, topic_setting
from odradek.world.installing import install_line

_KEY_NAME = re.compile(r"[A-Za-z0-9._-]{0,200}")


def check_topic_overrides(
    overrides: Mapping[str, str | None], defaults: TopicSettings
) -> TopicSettings:
    """Returns the settings of a topic with these overrides on top of `defaults`. Raises
    `InvalidSetting` if it cannot have them."""
    values = dict(defaults.__dict__)
    for name, text in overrides.items():
        setting = topic_setting(name)
        if text is None:
            raise InvalidSetting(name, "null", f"must be {setting.expected}")
        values[setting.attribute] = setting.parse(text)
    settings = TopicSettings(values)
    _check_together(settings)
    return settings


def check_has_key_provider(settings: TopicSettings, key_provider: str) -> None:
    """Raises `InvalidSetting` if topics with these settings are to be encrypted, and a broker with
    this `odradek.key.provider` cannot do that."""
    if not settings.odradek_encryption_key:
        return
    from importlib.util import find_spec  # noqa: PLC0415 - only where a topic is encrypted

    reason = None
    if find_spec("cryptography") is None:
        reason = (
            f"encryption needs the package cryptography on every broker: {install_line('security')}"
        )
    elif key_provider == NO_PROVIDER:
        reason = (
            "the broker has no key provider: set odradek.key.provider and start it again "
            "(docs/encryption.md)"
        )
    if reason is not None:
        raise InvalidSetting("odradek.encryption.key", settings.odradek_encryption_key, reason)


def _check_together(settings: TopicSettings) -> None:
    if not _KEY_NAME.fullmatch(settings.odradek_encryption_key):
        raise InvalidSetting(
            "odradek.encryption.key",
            settings.odradek_encryption_key,
            "must be the name of a key: letters, digits, dots, dashes and underscores",
        )
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise InvalidSetting(
            "min.compaction.lag.ms",
            settings.min_compaction_lag_ms,
            f"it is more than max.compaction.lag.ms, {settings.max_compaction_lag_ms}",
        )
    if settings.remote_storage_enable:
        raise InvalidSetting(
            "remote.storage.enable", "true", "tiered storage is not available on this broker"
        )
