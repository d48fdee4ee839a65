"""Admin calls about the settings of topics, brokers and other resources."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.client.admin.results import Results
from odradek.client.admin.topic_types import SettingValue
from odradek.protocol.errors import KafkaError, error_for, raise_for
from odradek.protocol.messages.alter_configs import (
    AlterableConfig as ReplacingConfig,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsResource as ReplacingResource,
)
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)
_log = logging.getLogger("odradek.client")


class ConfigCalls(AdminChannel):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        names: Sequence[str] | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> Results[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """Returns all settings of resources, or only those with the given `names`."""
        call = "describe_configs()"
        keys = None if names is None else arguments.names(names, call, "settings")
        answers: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for broker_id, group in _by_broker(resources, call).items():
            response = await self.request(
                DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=resource.type,
                            resource_name=resource.name,
                            configuration_keys=keys,
                        )
                        for resource in group
                    ],
                    include_synonyms=include_synonyms,
                    include_documentation=include_documentation,
                ),
                DescribeConfigsResponse,
                broker_id=broker_id,
            )
            for result in response.results:
                resource = ConfigResource(ConfigType(result.resource_type), result.resource_name)
                answers[resource] = (
                    error_for(result.error_code, result.error_message)
                    if result.error_code
                    else {entry.name: ConfigEntry.from_answer(entry) for entry in result.configs}
                )
        return Results(call, answers)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, KafkaError | None]:
        """Changes single settings and leaves the others as they are."""
        call = "incremental_alter_configs()"
        answers: dict[ConfigResource, KafkaError | None] = {}
        checked = {
            resource: _changes(given, call)
            for resource, given in arguments.mapping(
                changes, call, '{resource: [ConfigChange("retention.ms", 3_600_000)]}'
            ).items()
        }
        for broker_id, group in _by_broker(checked, call).items():
            response = await self._config_request(
                IncrementalAlterConfigsRequest(
                    resources=[
                        AlterConfigsResource(
                            resource_type=resource.type,
                            resource_name=resource.name,
                            configs=[
                                AlterableConfig(
                                    name=change.name,
                                    config_operation=change.operation,
                                    value=arguments.setting_text(change.value, call, change.name),
                                )
                                for change in checked[resource]
                            ],
                        )
                        for resource in group
                    ],
                    validate_only=validate_only,
                ),
                IncrementalAlterConfigsResponse,
                broker_id,
            )
            answers |= _errors_by_resource(response)
        return Results(call, answers)

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, SettingValue]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, KafkaError | None]:
        """Replaces all settings of a resource: a setting that is not named gets its default.

        A warning names these. `incremental_alter_configs` changes single settings.
        """
        call, line = "alter_configs()", '{resource: {"retention.ms": 3_600_000}}'
        arguments.mapping(configs, call, line)
        if not validate_only:
            await self._warn_of_reset(configs)
        answers: dict[ConfigResource, KafkaError | None] = {}
        for broker_id, group in _by_broker(configs, call).items():
            response = await self._config_request(
                AlterConfigsRequest(
                    resources=[
                        ReplacingResource(
                            resource_type=resource.type,
                            resource_name=resource.name,
                            configs=[
                                ReplacingConfig(
                                    name=arguments.a_name(name, call, "setting"),
                                    value=arguments.setting_text(value, call, name),
                                )
                                for name, value in arguments.mapping(
                                    configs[resource], call, line
                                ).items()
                            ],
                        )
                        for resource in group
                    ],
                    validate_only=validate_only,
                ),
                AlterConfigsResponse,
                broker_id,
            )
            answers |= _errors_by_resource(response)
        return Results(call, answers)

    async def _warn_of_reset(
        self, configs: Mapping[ConfigResource, Mapping[str, SettingValue]]
    ) -> None:
        for resource, entries in (await self.describe_configs(list(configs))).items():
            if isinstance(entries, KafkaError) or resource not in configs:
                continue
            reset = [
                entry.name
                for entry in entries.values()
                if entry.source == _own_source(resource) and entry.name not in configs[resource]
            ]
            if reset:
                _log.warning(
                    "alter_configs() replaces all settings of %s: back to the default goes %s;"
                    " incremental_alter_configs() changes single settings",
                    resource.name or "all brokers",
                    ", ".join(sorted(reset)),
                )

    async def _config_request(
        self, message: Request, response_class: type[R], broker_id: int | None
    ) -> R:
        if broker_id is None:
            return await self.controller_request(message, response_class)
        return await self.request(message, response_class, broker_id=broker_id)

    async def list_config_resources(self, types: Iterable[ConfigType] = ()) -> list[ConfigResource]:
        """Returns the resources that have settings of their own, of all types or of those named."""
        asked = arguments.several(
            ConfigType, types, "list_config_resources()", "types", "[ConfigType.TOPIC]"
        )
        response = await self.request(
            ListConfigResourcesRequest(resource_types=list(asked)), ListConfigResourcesResponse
        )
        raise_for(response.error_code)
        return [
            ConfigResource(ConfigType(answer.resource_type), answer.resource_name)
            for answer in response.config_resources
        ]


def _errors_by_resource(
    response: AlterConfigsResponse | IncrementalAlterConfigsResponse,
) -> dict[ConfigResource, KafkaError | None]:
    return {
        ConfigResource(ConfigType(answer.resource_type), answer.resource_name): error_or_none(
            answer.error_code, answer.error_message
        )
        for answer in response.responses
    }


def _changes(given: Iterable[ConfigChange], call: str) -> list[ConfigChange]:
    changes = arguments.several(
        ConfigChange, given, call, "changes", '[ConfigChange("retention.ms", 3_600_000)]'
    )
    for change in changes:
        arguments.a_name(change.name, call, "setting")
        arguments.one_of(int, change.operation, call, "an operation", "ConfigOperation.SET")
    return changes


def _by_broker(
    resources: Iterable[ConfigResource], call: str
) -> dict[int | None, list[ConfigResource]]:
    """Groups resources by the broker to ask: a broker knows its own settings, and any broker knows
    those of the other resources."""
    groups: dict[int | None, list[ConfigResource]] = {}
    line = 'ConfigResource(ConfigType.TOPIC, "topic")'
    for resource in arguments.several(ConfigResource, resources, call, "resources", line):
        arguments.one_of(int, resource.type, call, "a type of resource", line)
        arguments.one_of(str, resource.name, call, "the name of a resource as text", line)
        broker_id = None
        if resource.type in (ConfigType.BROKER, ConfigType.BROKER_LOGGER) and resource.name:
            if not resource.name.isdigit():
                raise ValueError(f"a broker is named by its number, not {resource.name!r}")
            broker_id = int(resource.name)
        groups.setdefault(broker_id, []).append(resource)
    return groups


def _own_source(resource: ConfigResource) -> ConfigSource | None:
    """Returns the source of settings that were made for this resource alone."""
    if resource.type == ConfigType.BROKER:
        own = ConfigSource.DYNAMIC_BROKER_CONFIG
        return own if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return {
        ConfigType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigType.GROUP: ConfigSource.GROUP_CONFIG,
        ConfigType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    }.get(resource.type)
