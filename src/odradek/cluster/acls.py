"""Access rules as the cluster keeps them: looked for, added and removed in the store.

Every change is a compare-and-set of one pattern's node, on any broker; all brokers' images follow.
They are looked for in the store and not in the image, so that whoever has just changed one through
another broker sees it.
"""

from collections.abc import Callable, Iterable, Mapping

from odradek.cluster.availability import answering
from odradek.metadata import (
    BadVersion,
    Create,
    Delete,
    ImageKeeper,
    MetadataStore,
    Node,
    NodeExists,
    NoNode,
    Set,
)
from odradek.metadata.acl_nodes import (
    LITERAL_ACLS,
    PREFIXED_ACLS,
    acl_path,
    decode_entries,
    encode_entries,
    nodes_above,
    resource_of,
)
from odradek.metadata.layout import MalformedNode
from odradek.protocol.acls import AccessEntry, AclFilter, ResourcePattern
from odradek.protocol.errors import ErrorCode
from odradek.replication.refusal import Refused

Entries = tuple[AccessEntry, ...]


class AccessRules:
    def __init__(self, store: MetadataStore, images: ImageKeeper) -> None:
        self._store = store
        self._images = images

    async def find(self, wanted: AclFilter) -> Mapping[ResourcePattern, Entries]:
        """The entries that a filter selects, by resource; resources without any are left out."""
        with answering():
            nodes = await self._store.read_tree(LITERAL_ACLS)
            nodes |= await self._store.read_tree(PREFIXED_ACLS)
        found: dict[ResourcePattern, Entries] = {}
        for path, node in nodes.items():
            resource = resource_of(path)
            if resource is not None and wanted.finds(resource):
                entries = tuple(filter(wanted.selects, _entries(path, node)))
                if entries:
                    found[resource] = entries
        return found

    async def add(self, resource: ResourcePattern, entries: Iterable[AccessEntry]) -> None:
        """Those that there are already stay as they are."""
        added = tuple(entries)
        await self._change(resource, lambda before: tuple(dict.fromkeys(before + added)))

    async def remove(self, resource: ResourcePattern, wanted: AclFilter) -> Entries:
        """Returns the entries that were removed."""
        removed: Entries = ()

        def without(before: Entries) -> Entries:
            nonlocal removed
            removed = tuple(filter(wanted.selects, before))
            return tuple(entry for entry in before if entry not in removed)

        await self._change(resource, without)
        return removed

    async def _change(
        self, resource: ResourcePattern, change: Callable[[Entries], Entries]
    ) -> None:
        path = acl_path(resource)
        with answering():
            while True:
                node = await self._store.read(path)
                before = () if node is None else _entries(path, node)
                after = change(before)
                if after == before:
                    return
                operation: Create | Set | Delete
                if node is None:
                    await self._make_way(resource)
                    operation = Create(path, encode_entries(after))
                elif after:
                    operation = Set(path, encode_entries(after), node.version)
                else:
                    operation = Delete(path, node.version)
                try:
                    await self._images.write(operation)
                except (BadVersion, NodeExists, NoNode):
                    continue  # Somebody else has changed it: decide again.
                return

    async def _make_way(self, resource: ResourcePattern) -> None:
        """The first rule of its kind makes the nodes that it hangs on."""
        for above in nodes_above(resource):
            if await self._store.read(above) is None:
                try:
                    await self._store.multi(Create(above))
                except NodeExists:
                    continue


def _entries(path: str, node: Node) -> Entries:
    try:
        return decode_entries(path, node.value)
    except MalformedNode as error:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
