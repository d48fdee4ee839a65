"""Finds, grants and revokes roles in the metadata store.

Every change is a compare-and-set of one principal's node, on any broker; all brokers' images
follow.
Bindings are read from the store and not from the image, so that a client that has just changed one
through another broker sees it.
"""

from collections.abc import Collection

from odradek.cluster.store_errors import as_api_errors
from odradek.metadata import MetadataCache, MetadataStore
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.role_nodes import ROLES, decode_bindings, encode_bindings, roles_path
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.roles import RoleBinding

Bindings = tuple[RoleBinding, ...]


class RoleStore:
    def __init__(self, store: MetadataStore, cache: MetadataCache) -> None:
        self._store = store
        self._cache = cache

    async def all(self) -> list[RoleBinding]:
        with as_api_errors():
            nodes = await self._store.read_tree(ROLES)
        return [
            binding
            for path, node in sorted(nodes.items())
            if path.startswith(ROLES + "/")
            for binding in _bindings(path, node.value)
        ]

    async def change(
        self, principal: str, granted: Collection[RoleBinding], revoked: Collection[RoleBinding]
    ) -> Bindings:
        """Grants and revokes roles of one principal in one write. Returns those of `revoked` that
        it had. A role that it has already stays as it is."""
        path = roles_path(principal)
        had: Bindings = ()

        def changed(value: bytes | None) -> bytes | None:
            nonlocal had
            before = () if value is None else _bindings(path, value)
            # An earlier try whose outcome is unknown may have revoked some already.
            had = tuple(dict.fromkeys((*had, *(one for one in before if one in revoked))))
            kept = [binding for binding in before if binding not in revoked]
            after = tuple(dict.fromkeys((*kept, *granted)))
            return None if after == before else encode_bindings(after)

        with as_api_errors():
            await change_node(self._cache, path, changed, parents=["/odradek", ROLES])
        return had


def _bindings(path: str, value: bytes) -> Bindings:
    try:
        return decode_bindings(path, value)
    except MalformedNode as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
