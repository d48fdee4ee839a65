"""Finds and changes the quotas of users, client ids and IP addresses in the metadata store.

Every change is a compare-and-set of one entity's node, on any broker; all brokers' images follow.
The credentials of a user are in the same node and stay as they are.
"""

from collections.abc import Mapping

from odradek.cluster.store_errors import as_api_errors
from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.quota_nodes import (
    ROOTS,
    decode_quotas,
    encode_quotas,
    entity_of,
    nodes_above,
    quota_path,
)
from odradek.security.quotas.entities import QuotaEntity, check_quota, quota_text

QuotaChange = Mapping[str, float | None]
"""The quotas to set; None removes one."""


class QuotaStore:
    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    async def all(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Returns the quotas of all entities. They are read from the store, so that a client that
        has just changed one through another broker sees it."""
        quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        with as_api_errors():
            for root in ROOTS:
                for path, node in (await self._cache.store.read_tree(root.rstrip("/"))).items():
                    entity = entity_of(path)
                    found = {} if entity is None else _quotas(path, node.value)
                    if entity is not None and found:
                        quotas[entity] = found
        return quotas

    async def alter(
        self, entity: QuotaEntity, change: QuotaChange, *, validate_only: bool = False
    ) -> None:
        """Sets and removes quotas of an entity. Raises `InvalidQuota`, and changes nothing, if one
        of them cannot be."""
        for key, value in change.items():
            check_quota(entity, key, value)
        if validate_only:
            return
        path = quota_path(entity)

        def changed(value: bytes | None) -> bytes | None:
            try:
                before = ConfigOverrides.decode(path, value).settings if value else {}
            except MalformedNode:
                # The change repairs the node, with what is known of it.
                known = encode_quotas(self._cache.image.quotas.get(entity, {}))
                before = ConfigOverrides.decode(path, known).settings
            after = {key: text for key, text in before.items() if change.get(key, 0) is not None}
            for key, quota in change.items():
                if quota is not None:
                    after[key] = quota_text(key, quota)
            return None if after == before else ConfigOverrides(after).encode()

        with as_api_errors():
            await change_node(self._cache, path, changed, parents=nodes_above(entity))


def _quotas(path: str, value: bytes) -> dict[str, float]:
    try:
        return decode_quotas(path, value)
    except MalformedNode:
        return {}  # It was written to the metadata store by hand; brokers have logged it.
