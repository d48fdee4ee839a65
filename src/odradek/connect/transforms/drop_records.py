"""Filter: drops every record. It is meant for use with a predicate."""

from typing import ClassVar

from odradek.connect.settings import PluginSettings
from odradek.connect.transforms.transform import R


class FilterSettings(PluginSettings):
    pass


class Filter:
    settings_class: ClassVar = FilterSettings

    def __init__(self, settings: FilterSettings) -> None:
        pass

    def apply(self, record: R) -> R | None:
        return None
