"""What the HTTP services of `odradek up --platform --secure` get from a secured directory.

    D/security/schema-registry.pem, rest-proxy.pem, connect.pem, sql-server.pem, console.pem
                                       their keys and certificates, for https
    D/security/passwords.properties    has the passwords of `schema-registry`, `connect` and
                                       `sql-server` too

Callers of the services log in as users of the brokers. The REST proxy and the console have no user
of their own. The registry reads and writes its topic as the user `schema-registry`, who has exactly
the permissions that docs/registry.md lists. The worker of Connect and its connectors work while
nobody asks, as the user `connect`, who may read and write topics (docs/connect.md); so do
persistent queries, as the user `sql-server` (docs/sql.md). These users are made by the brokers' own
user, whose password is always right: that of `admin` may have been changed. Each step makes only
what is missing, so the services can be added to a directory that was secured before.
"""

import asyncio
import shlex
from collections.abc import Mapping
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.admin.users import ScramUpsertion
from odradek.client.errors import ClientError
from odradek.local.securing import ADMIN, BROKER, SecuredDirectory
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import KafkaError
from odradek.tools.failures import CommandFailed

REGISTRY: Final = "schema-registry"
REST: Final = "rest-proxy"
CONSOLE: Final = "console"
CONNECT: Final = "connect"
SQL: Final = "sql-server"
_LOOK_AGAIN_S: Final = 0.05
_Permissions = Mapping[ResourcePattern, tuple[Operation, ...]]
# What a service may do with topics, groups and transactional ids.
_MAKES_AND_USES: Final = (
    Operation.CREATE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.READ,
    Operation.WRITE,
)
_OWNS_GROUP: Final = (Operation.DELETE, Operation.DESCRIBE, Operation.READ)
_USES_TRANSACTIONS: Final = (Operation.DESCRIBE, Operation.WRITE)
_OF_REGISTRY: Final[_Permissions] = {
    ResourcePattern(ResourceType.TOPIC, "_schemas"): _MAKES_AND_USES,
    ResourcePattern(ResourceType.GROUP, REGISTRY): (Operation.DESCRIBE, Operation.READ),
    ResourcePattern(ResourceType.TRANSACTIONAL_ID, f"{REGISTRY}-_schemas"): _USES_TRANSACTIONS,
}
# Connectors read and write whatever topics they are configured for, and sinks have groups.
_OF_CONNECT: Final[_Permissions] = {
    ResourcePattern(ResourceType.TOPIC, "*"): _MAKES_AND_USES,
    ResourcePattern(ResourceType.GROUP, "connect-", PatternType.PREFIXED): _OWNS_GROUP,
    ResourcePattern(
        ResourceType.TRANSACTIONAL_ID, "connect-", PatternType.PREFIXED
    ): _USES_TRANSACTIONS,
}

# Queries read and write whatever topics their statements name. What is theirs alone has a prefix.
_SQL_PREFIX: Final = "_odradek_sql_"
_OF_SQL: Final[_Permissions] = {
    ResourcePattern(ResourceType.TOPIC, "*"): _MAKES_AND_USES,
    ResourcePattern(ResourceType.TOPIC, _SQL_PREFIX, PatternType.PREFIXED): (Operation.DELETE,),
    ResourcePattern(ResourceType.GROUP, _SQL_PREFIX, PatternType.PREFIXED): _OWNS_GROUP,
    ResourcePattern(
        ResourceType.TRANSACTIONAL_ID, _SQL_PREFIX, PatternType.PREFIXED
    ): _USES_TRANSACTIONS,
}


class SecuredServices:
    """The security of the services of one data directory."""

    def __init__(self, secured: SecuredDirectory, bootstrap: str) -> None:
        self._secured = secured
        self._bootstrap = bootstrap

    async def wait(self) -> None:
        """Returns when the brokers' process has made the directory and its first users."""
        while self._secured.needs_users:  # noqa: ASYNC110 - another process makes them
            await asyncio.sleep(_LOOK_AGAIN_S)

    def registry_settings(self) -> dict[str, str]:
        """Returns the settings that make a registry a secured one."""
        login = self._secured.login_of(REGISTRY)
        return {
            **{f"kafkastore.{name}": text for name, text in login.items()},
            **self._secured.keystore_of(REGISTRY),
            "authentication.method": "BASIC",
        }

    def rest_settings(self) -> dict[str, str]:
        """Returns the settings that make a REST proxy a secured one. It has no log-in."""
        return self._settings_of(REST)

    def console_settings(self) -> dict[str, str]:
        """Returns the settings that make a console a secured one. Users log in as themselves."""
        return self._settings_of(CONSOLE)

    def _settings_of(self, service: str) -> dict[str, str]:
        login = self._secured.login_of(BROKER)
        del login["sasl.jaas.config"]
        trusted = self._secured.truststore
        return {
            **{f"client.{name}": text for name, text in login.items()},
            **{f"schema.registry.{name}": text for name, text in trusted.items()},
            **self._secured.keystore_of(service),
        }

    def connect_settings(self) -> dict[str, str]:
        """Returns the settings that make a worker of Connect a secured one."""
        login = self._secured.login_of(CONNECT)
        keys = self._secured.keystore_of(CONNECT)
        return {
            **login,
            **{f"listeners.https.{name}": text for name, text in keys.items()},
            "authentication.method": "BASIC",
        }

    def sql_settings(self) -> dict[str, str]:
        """Returns the settings that make a SQL server a secured one."""
        registry = {
            "basic.auth.user.info": f"{SQL}:{self._secured.require_password(SQL)}",
            **self._secured.truststore,
        }
        return {
            **self._secured.login_of(SQL),
            **{f"ksql.schema.registry.{name}": text for name, text in registry.items()},
            **self._secured.keystore_of(SQL),
            "authentication.method": "BASIC",
        }

    async def prepare_registry(self) -> None:
        """Makes the registry's user. The brokers must answer."""
        await self._prepare(REGISTRY, _OF_REGISTRY)

    async def prepare_connect(self) -> None:
        """Makes the user of Connect. The brokers must answer."""
        await self._wait_for_password(REGISTRY)
        await self._prepare(CONNECT, _OF_CONNECT)

    async def prepare_sql(self) -> None:
        """Makes the user of the SQL server. The brokers must answer."""
        await self._wait_for_password(CONNECT)
        await self._prepare(SQL, _OF_SQL)

    async def _wait_for_password(self, user: str) -> None:
        """Returns when a user has a password: two processes must not add to the file of passwords
        at once, so they do it in a fixed order."""
        while user not in self._secured.first_passwords():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _prepare(self, user: str, permissions: _Permissions) -> None:
        """Gives a user its permissions, and its password if it has none."""
        properties = {**self._secured.login_of(BROKER), "bootstrap.servers": self._bootstrap}
        try:
            async with Admin(properties) as admin:
                for failure in (await admin.create_acls(_acls(user, permissions))).values():
                    if failure is not None:
                        raise failure
                described = await admin.describe_user_scram_credentials([user])
                is_missing = isinstance(described[user], KafkaError)
                if is_missing or user not in self._secured.first_passwords():
                    password = self._secured.require_password(user)
                    made = ScramUpsertion.of_password(user, password)
                    failure = (await admin.alter_user_scram_credentials([made]))[user]
                    if failure is not None:
                        raise failure
        except (ClientError, KafkaError) as error:
            raise CommandFailed(f"cannot make the user {user}: {error}") from None

    def announcement(self, rest_url: str) -> str:
        """Returns the lines that say how to log in at the services. The password stays in its
        file, so that no log has it."""
        file = shlex.quote(self._secured.librdkafka_path)
        password = f"$(sed -n 's/^sasl.password=//p' {file})"
        return (
            f"callers of the services log in as users of the brokers; {ADMIN} with:\n"
            f"  curl --cacert {shlex.quote(self._secured.authority_path)}"
            f' -u "{ADMIN}:{password}" {rest_url}/v3/clusters\n'
            f"the console takes the same users; the password of {ADMIN} is sasl.password in {file}"
        )


def _acls(user: str, permissions: _Permissions) -> list[Acl]:
    return [
        Acl(resource, AccessEntry(f"User:{user}", "*", operation, Permission.ALLOW))
        for resource, operations in permissions.items()
        for operation in operations
    ]
