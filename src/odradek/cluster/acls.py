"""Finds, adds and removes ACLs in the metadata store.

Every change is a compare-and-set of one pattern's node, on any broker; all brokers' images follow.
A pattern that has lost its last entry keeps its node (`odradek.metadata.compare_and_set`).
Rules are read from the store and not from the image, so that a client that has just changed one
through another broker sees it.
"""

from collections.abc import Callable, Iterable, Mapping

from odradek.cluster.store_errors import as_api_errors
from odradek.metadata import MetadataCache, MetadataStore
from odradek.metadata.acl_nodes import (
    LITERAL_ACLS,
    PREFIXED_ACLS,
    acl_path,
    decode_entries,
    encode_entries,
    nodes_above,
    resource_of,
)
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.json_fields import MalformedNode
from odradek.protocol.acls import AccessEntry, AclFilter, ResourcePattern
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode

Entries = tuple[AccessEntry, ...]


class AclStore:
    def __init__(self, store: MetadataStore, cache: MetadataCache) -> None:
        self._store = store
        self._cache = cache

    async def find(self, acl_filter: AclFilter) -> Mapping[ResourcePattern, Entries]:
        """Returns the entries that a filter selects, by resource."""
        with as_api_errors():
            nodes = await self._store.read_tree(LITERAL_ACLS)
            nodes |= await self._store.read_tree(PREFIXED_ACLS)
        entries_by_pattern: dict[ResourcePattern, Entries] = {}
        for path, node in nodes.items():
            resource = resource_of(path)
            if resource is not None and acl_filter.matches_resource(resource):
                entries = tuple(filter(acl_filter.matches_entry, _entries(path, node.value)))
                if entries:
                    entries_by_pattern[resource] = entries
        return entries_by_pattern

    async def add(self, resource: ResourcePattern, entries: Iterable[AccessEntry]) -> None:
        """Adds the entries that do not exist yet."""
        added = tuple(entries)
        await self._change(resource, lambda before: tuple(dict.fromkeys(before + added)))

    async def remove(self, resource: ResourcePattern, acl_filter: AclFilter) -> Entries:
        """Removes the entries that a filter selects, and returns them."""
        removed: Entries = ()

        def without(before: Entries) -> Entries:
            nonlocal removed
            selected = tuple(filter(acl_filter.matches_entry, before))
            # An earlier try whose outcome is unknown may have removed some already.
            removed = tuple(dict.fromkeys(removed + selected))
            return tuple(entry for entry in before if entry not in selected)

        await self._change(resource, without)
        return removed

    async def _change(
        self, resource: ResourcePattern, change: Callable[[Entries], Entries]
    ) -> None:
        path = acl_path(resource)

        def changed(value: bytes | None) -> bytes | None:
            before = () if value is None else _entries(path, value)
            after = change(before)
            return None if after == before else encode_entries(after)

        with as_api_errors():
            await change_node(self._cache, path, changed, parents=nodes_above(resource))


def _entries(path: str, value: bytes) -> Entries:
    try:
        return decode_entries(path, value)
    except MalformedNode as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
