"""One declaration per setting, from which parsing, DescribeConfigs and the reference are derived.

`setting` is the declaration, `kinds` its kinds and `values` their parsers. `topic_settings` and the
other `*_settings` modules declare the settings of brokers and topics, `broker_settings` layers
them; `program_settings` holds those of clients and services. `describe` shows and alters settings,
`properties` reads files, `spelling` finds the name that was probably meant.

The names below are imported when they are first used: a client needs `kinds` and `values` alone,
and the declarations of brokers would make its start 20 ms longer.
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.config.broker_settings import (
        BROKER_DECLARED,
        BrokerSettings,
        Layers,
        check_broker_overrides,
    )
    from odradek.config.describe import (
        Description,
        Source,
        SynonymDescription,
        alter,
        describe_broker,
        describe_cluster_default,
        describe_topic,
    )
    from odradek.config.listeners import Listener, parse_listener
    from odradek.config.operation import ConfigOperation
    from odradek.config.properties import parse_overrides, parse_properties
    from odradek.config.setting import InvalidSetting, Kind, Scope, Setting
    from odradek.config.topic_checks import check_topic_overrides
    from odradek.config.topic_settings import TopicSettings

_HOMES = {
    "ConfigOperation": "odradek.config.operation",
    "BROKER_DECLARED": "odradek.config.broker_settings",
    "BrokerSettings": "odradek.config.broker_settings",
    "Description": "odradek.config.describe",
    "InvalidSetting": "odradek.config.setting",
    "Kind": "odradek.config.setting",
    "Layers": "odradek.config.broker_settings",
    "Listener": "odradek.config.listeners",
    "Scope": "odradek.config.setting",
    "Setting": "odradek.config.setting",
    "Source": "odradek.config.describe",
    "SynonymDescription": "odradek.config.describe",
    "TopicSettings": "odradek.config.topic_settings",
    "alter": "odradek.config.describe",
    "check_broker_overrides": "odradek.config.broker_settings",
    "check_topic_overrides": "odradek.config.topic_checks",
    "describe_broker": "odradek.config.describe",
    "describe_cluster_default": "odradek.config.describe",
    "describe_topic": "odradek.config.describe",
    "parse_listener": "odradek.config.listeners",
    "parse_overrides": "odradek.config.properties",
    "parse_properties": "odradek.config.properties",
}

__all__ = [
    "BROKER_DECLARED",
    "BrokerSettings",
    "ConfigOperation",
    "Description",
    "InvalidSetting",
    "Kind",
    "Layers",
    "Listener",
    "Scope",
    "Setting",
    "Source",
    "SynonymDescription",
    "TopicSettings",
    "alter",
    "check_broker_overrides",
    "check_topic_overrides",
    "describe_broker",
    "describe_cluster_default",
    "describe_topic",
    "parse_listener",
    "parse_overrides",
    "parse_properties",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
