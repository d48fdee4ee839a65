"""The calls of `Admin` about access: ACLs, quotas, roles, users and delegation tokens."""

from collections.abc import Iterable, Mapping

from odradek.client.admin.acls import ANY_ACL
from odradek.client.admin.admin import Admin as AsyncAdmin
from odradek.client.admin.delegation_tokens import DelegationToken
from odradek.client.admin.quotas import ANY_ENTITY
from odradek.client.admin.results import Results
from odradek.client.admin.roles import AccessExplanation
from odradek.client.admin.users import ScramDeletion, ScramUpsertion
from odradek.client.sync.waiting import WaitingClient
from odradek.protocol.acls import Acl, AclFilter, Operation, ResourcePattern
from odradek.protocol.errors import KafkaError
from odradek.protocol.roles import RoleBinding
from odradek.security.quotas.entities import QuotaEntity
from odradek.security.scram import ScramMechanism


class AccessCalls(WaitingClient[AsyncAdmin]):
    """Passes them on to the asyncio client and waits."""

    def describe_acls(self, filter_: AclFilter = ANY_ACL) -> list[Acl]:
        """Returns the rules that match a filter, or all of them."""
        return self._wait(self._client.describe_acls(filter_))

    def create_acls(self, acls: Iterable[Acl]) -> Results[Acl, KafkaError | None]:
        """Adds rules; a rule that exists already stays as it is."""
        return self._wait(self._client.create_acls(acls))

    def delete_acls(
        self, filters: Iterable[AclFilter]
    ) -> Results[AclFilter, list[Acl] | KafkaError]:
        """Removes the rules that match filters, and returns them by filter."""
        return self._wait(self._client.delete_acls(filters))

    def describe_client_quotas(
        self, entity: QuotaEntity = ANY_ENTITY, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Returns the quotas of the entities that match, or of all of them.

        A part of `entity` is a name, `DEFAULT` (an empty name) for the default, or `ANY_NAME` for
        both. Entities with further parts match too, unless `strict`.
        """
        return self._wait(self._client.describe_client_quotas(entity, strict=strict))

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> Results[QuotaEntity, KafkaError | None]:
        """Sets quotas by name; None removes one. The quotas of an entity change together."""
        return self._wait(self._client.alter_client_quotas(changes, validate_only=validate_only))

    def describe_roles(self, principal: str | None = None) -> list[RoleBinding]:
        """Returns the roles of a principal, as in `User:ada`, or all of them."""
        return self._wait(self._client.describe_roles(principal))

    def grant_roles(self, bindings: Iterable[RoleBinding]) -> dict[RoleBinding, KafkaError | None]:
        """Grants roles; one that the principal has already stays as it is."""
        return self._wait(self._client.grant_roles(bindings))

    def revoke_roles(self, bindings: Iterable[RoleBinding]) -> dict[RoleBinding, KafkaError | None]:
        """Revokes roles."""
        return self._wait(self._client.revoke_roles(bindings))

    def explain_access(
        self,
        principal: str,
        operation: Operation,
        resource: ResourcePattern,
        *,
        host: str = "*",
        groups: Iterable[str] = (),
    ) -> AccessExplanation:
        """Returns whether a principal may do an operation on a resource, what decides, and what
        would have to be added. `groups` are those that it is in, as in `Group:shop`."""
        return self._wait(
            self._client.explain_access(principal, operation, resource, host=host, groups=groups)
        )

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> Results[str, dict[ScramMechanism, int] | KafkaError]:
        """Returns the mechanisms of each user with their iterations; of all users if none is
        named."""
        return self._wait(self._client.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, KafkaError | None]:
        """Gives users passwords, or takes them away; a user may be named once."""
        return self._wait(self._client.alter_user_scram_credentials(changes))

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        """Creates a token for whoever this client has logged in as, or for another `owner`, as in
        `User:ada`. `renewers` may renew and end it, as its owner may. It can be renewed for
        `max_lifetime_ms`; -1 is as long as the brokers allow."""
        return self._wait(
            self._client.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
            )
        )

    def renew_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Lets a token, or the one with this HMAC, end `period_ms` from now, if its maximum and the
        brokers allow it; -1 is as late as the brokers allow. Returns when it ends, in ms."""
        return self._wait(self._client.renew_delegation_token(token, period_ms))

    def expire_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Lets a token, or the one with this HMAC, end `period_ms` from now, or at once. Returns
        when it ends, in ms. Connections that have logged in with it stay as they are."""
        return self._wait(self._client.expire_delegation_token(token, period_ms))

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Returns the tokens that these owners, requesters or renewers have, as in `User:ada`, or
        all that this client may see."""
        return self._wait(self._client.describe_delegation_tokens(owners))
