"""Elects the primary among the instances of a registry, by a group of Kafka's.

How an instance joins and stays in the group is that of all services (`services.group`). It has
the protocol type `sr` and the messages of Confluent's registry, so that instances of both can take
turns while a registry is migrated. Each member says its address and whether it may
be the primary. The member that Kafka makes the leader of the group chooses: the present primary if
it is still there, else the eligible member with the smallest address.

Who is elected writes nothing before it has fenced all earlier primaries (`schema_log`), so a wrong
or late election does no harm: the group only has to agree soon. So an instance whose forwarded
request is refused by the primary's machine removes that member (`remove`), and nobody waits for the
session time-out.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from odradek.client.cluster import Cluster
from odradek.services.group import GroupMember

_log = logging.getLogger("odradek.registry")

_DUPLICATE_URLS: Final = 1


class Identity(msgspec.Struct, frozen=True):
    """An instance, in the words of Confluent's registry."""

    host: str
    port: int
    master_eligibility: bool = True
    scheme: str = "http"
    leader: bool = False
    version: int = 1

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class _Assignment(msgspec.Struct, frozen=True):
    master: str | None = None
    master_identity: Identity | None = None
    error: int = 0
    version: int = 1


class Elected:
    """The primary that the group agreed on: its member id and identity, None if there is none."""

    __slots__ = ("identity", "is_me", "member_id")

    def __init__(self, member_id: str | None, identity: Identity | None, is_me: bool) -> None:
        self.member_id = member_id
        self.identity = identity
        self.is_me = is_me


NOBODY: Final = Elected(None, None, False)


class Election(GroupMember):
    protocol_type = "sr"
    protocol = "v0"
    group_setting = "schema.registry.group.id"

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        identity: Identity,
        on_elected: Callable[[Elected], None],
    ) -> None:
        """`on_elected` is called whenever the group has agreed, and with `NOBODY` when this
        instance does not know any more who the primary is."""
        super().__init__(cluster, group_id)
        self._identity = identity
        self._on_elected = on_elected
        self._is_primary = False
        self.members = 0

    def metadata(self) -> bytes:
        return msgspec.json.encode(msgspec.structs.replace(self._identity, leader=self._is_primary))

    def is_former_self(self, metadata: bytes) -> bool:
        return _identity_in(metadata).url == self._identity.url

    async def decide(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict.fromkeys(members, msgspec.json.encode(self._choose(members)))

    def _choose(self, said: Mapping[str, bytes]) -> _Assignment:
        members = {name: _identity_in(metadata) for name, metadata in said.items()}
        self.members = len(members)
        urls = {identity.url for identity in members.values()}
        eligible = {name: one for name, one in members.items() if one.master_eligibility}
        present = [name for name, one in eligible.items() if one.leader]
        error = 0 if len(urls) == len(members) else _DUPLICATE_URLS
        if not eligible:
            return _Assignment(error=error)
        chosen = (
            present[0]
            if len(present) == 1
            else min(eligible, key=lambda name: (eligible[name].url, name))
        )
        return _Assignment(chosen, eligible[chosen], error)

    def note_decision(self, decision: bytes, *, leads: bool) -> None:
        assignment = msgspec.json.decode(decision, type=_Assignment)
        if assignment.error == _DUPLICATE_URLS:
            _log.error(
                "two instances say that they are at %s: set host.name to a name by which the others"
                " reach each of them",
                self._identity.url,
            )
        identity = assignment.master_identity
        self._is_primary = (
            identity is not None and assignment.error == 0 and assignment.master == self.member_id
        )
        self._on_elected(
            Elected(assignment.master, identity, self._is_primary) if identity else NOBODY
        )

    def note_out(self) -> None:
        self._is_primary = False
        self._on_elected(NOBODY)


def _identity_in(metadata: bytes) -> Identity:
    try:
        return msgspec.json.decode(bytes(metadata), type=Identity)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Identity("", 0, master_eligibility=False)
