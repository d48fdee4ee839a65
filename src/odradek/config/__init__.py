"""One declaration per setting: from it follow parsing, DescribeConfigs and the reference page.

`setting` says what a setting is; `topic_settings` and the `*_settings` modules declare them;
`broker_settings` layers them; `describe` shows and alters them; `properties` reads files.
"""

from odradek.config.broker_settings import (
    BROKER_DECLARED,
    BrokerSettings,
    Layers,
    check_broker_overrides,
)
from odradek.config.describe import (
    AlterOperation,
    Description,
    Source,
    SynonymDescription,
    alter,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from odradek.config.listeners import Listener, parse_listener
from odradek.config.properties import parse_overrides, parse_properties
from odradek.config.setting import InvalidSetting, Kind, Scope, Setting
from odradek.config.topic_settings import TopicSettings, check_topic_overrides

__all__ = [
    "BROKER_DECLARED",
    "AlterOperation",
    "BrokerSettings",
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
