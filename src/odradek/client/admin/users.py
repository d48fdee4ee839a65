"""Admin calls about users that log in by SCRAM: their passwords, which brokers keep salted and
hashed in the metadata store."""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.client.admin.results import Results
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from odradek.security.scram import (
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramMechanism,
    salt_from,
    salted_password,
)
from odradek.world.randomness import Randomness


class ScramUpsertion(NamedTuple):
    """A password that a user gets, for one mechanism, as it is sent: salted and hashed."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: bytes
    salted_password: bytes

    @classmethod
    def of_password(
        cls,
        user: str,
        password: str,
        mechanism: ScramMechanism = ScramMechanism.SHA_512,
        iterations: int = MIN_ITERATIONS,
    ) -> "ScramUpsertion":
        """Salts and hashes a password. That takes milliseconds; more iterations take longer, here
        and at each log-in."""
        salt = salt_from(Randomness().bytes(SALT_BYTES))
        return cls(
            user,
            mechanism,
            iterations,
            salt,
            salted_password(mechanism, password, salt, iterations),
        )

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism.kafka_name}, ...)"


class ScramDeletion(NamedTuple):
    """The password of one mechanism that a user loses."""

    user: str
    mechanism: ScramMechanism


class UserCalls(AdminChannel):
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> Results[str, dict[ScramMechanism, int] | KafkaError]:
        """Returns the mechanisms of each user with their iterations; of all users if none is
        named."""
        names = None
        if users is not None:
            call = "describe_user_scram_credentials()"
            names = [UserName(name=name) for name in arguments.several(str, users, call, "users")]
        response = await self.request(
            DescribeUserScramCredentialsRequest(users=names), DescribeUserScramCredentialsResponse
        )
        if response.error_code:
            raise error_for(response.error_code, response.error_message)
        return Results(
            "describe_user_scram_credentials()",
            {
                result.user: error_or_none(result.error_code, result.error_message)
                or {
                    ScramMechanism(one.mechanism): one.iterations for one in result.credential_infos
                }
                for result in response.results
            },
        )

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, KafkaError | None]:
        """Gives users passwords, or takes them away; a user may be named once. Clients that are
        logged in stay so; the next log-in needs the new password."""
        deletions: list[ScramCredentialDeletion] = []
        upsertions: list[ScramCredentialUpsertion] = []
        for change in changes:
            if isinstance(change, ScramDeletion):
                deletions.append(
                    ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
                )
                continue
            upsertions.append(
                ScramCredentialUpsertion(
                    name=change.user,
                    mechanism=change.mechanism,
                    iterations=change.iterations,
                    salt=change.salt,
                    salted_password=change.salted_password,
                )
            )
        response = await self.controller_request(
            AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions),
            AlterUserScramCredentialsResponse,
        )
        return Results(
            "alter_user_scram_credentials()",
            {
                result.user: error_or_none(result.error_code, result.error_message)
                for result in response.results
            },
        )
