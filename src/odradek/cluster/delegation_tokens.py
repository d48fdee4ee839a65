"""Creates, finds, renews and ends delegation tokens in the metadata store.

Tokens are read from the store each time, as SCRAM credentials are: a token that was created,
renewed or ended at one broker counts at once at all of them. Every change is a compare-and-set of
the token's node. Ids are random and never used again, so a node may be deleted.

A request to renew or expire a token names it by its HMAC. The HMAC cannot be turned back into the
id, so it is compared with those of all ids in the store. They are kept in memory, because each
takes some microseconds to compute.
"""

import base64
import logging
from collections.abc import Callable, Sequence
from hmac import compare_digest
from typing import Final

from odradek.cluster.store_errors import as_api_errors
from odradek.config.live import LiveSettings
from odradek.metadata import BadVersion, Delete, MetadataCache, MetadataStore, NoNode
from odradek.metadata.compare_and_set import Tries, attempt, change_node
from odradek.metadata.delegation_token_nodes import (
    PARENTS,
    TOKENS,
    decode_token,
    encode_token,
    token_path,
)
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.store import OutcomeUnknown
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.security.delegation_tokens import TokenInformation, compute_hmac
from odradek.security.principals import Principal
from odradek.world import World
from odradek.world.timeslice import Timeslice

logger: Final = logging.getLogger("odradek.tokens")

_ID_BYTES: Final = 16
_MAX_NODE_BYTES: Final = 65_536
# A time that lies beyond this cannot be written in the protocol.
_MAX_TIME_MS: Final = 2**63 - 1

TokenChange = Callable[[TokenInformation], TokenInformation]


class DelegationTokens:
    """The tokens of a cluster, as one broker serves them."""

    def __init__(
        self,
        secret_key: str,
        store: MetadataStore,
        cache: MetadataCache,
        settings: LiveSettings,
        world: World,
    ) -> None:
        """`secret_key` is `delegation.token.secret.key`, which is not empty."""
        self._secret_key = secret_key
        self._store = store
        self._cache = cache
        self._settings = settings
        self._now_ms = world.clock.now_ms
        self._random_bytes = world.randomness.bytes
        # The HMACs by id of the tokens that were in the store when they were last looked at.
        self._hmacs: dict[str, bytes] = {}

    def hmac_of(self, token_id: str) -> bytes:
        return compute_hmac(self._secret_key, token_id)

    def password_of(self, token_id: str) -> str:
        """Returns the password of a log-in by the token: its HMAC in base 64."""
        return base64.b64encode(self.hmac_of(token_id)).decode()

    # Reading

    async def find(self, token_id: str) -> TokenInformation | None:
        """Returns a token that a client may log in with now, or None. Raises `MetadataError`."""
        path = token_path(token_id)
        node = None if path is None else await self._store.read(path)
        if path is None or node is None:
            return None
        token = decode_token(path, node.value)
        return None if token.is_expired(self._now_ms()) else token

    async def all(self) -> list[TokenInformation]:
        """Returns all tokens, also those that have expired and are not removed yet. One that
        cannot be decoded was written by somebody else, and is left out."""
        with as_api_errors():
            nodes = await self._store.read_tree(TOKENS)
        tokens, timeslice = [], Timeslice.of_running_loop()
        for path, node in sorted(nodes.items()):
            if timeslice.is_over():
                await timeslice.next_turn()
            if path.startswith(TOKENS + "/"):
                try:
                    tokens.append(decode_token(path, node.value))
                except MalformedNode as error:
                    logger.warning("%s", error)
        return tokens

    async def _path_of(self, hmac: bytes) -> str:
        """Returns the path of the token with this HMAC. Raises `ApiError` if there is none."""
        with as_api_errors():
            token_ids = await self._store.children(TOKENS)
        hmacs: dict[str, bytes] = {}
        timeslice = Timeslice.of_running_loop()
        for token_id in token_ids:
            if timeslice.is_over():
                await timeslice.next_turn()
            known = self._hmacs.get(token_id)
            hmacs[token_id] = known or self.hmac_of(token_id)
        self._hmacs = hmacs
        for token_id, known in hmacs.items():
            if compare_digest(known, hmac):
                path = token_path(token_id)
                if path is not None:
                    return path
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    # Changing

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: Sequence[Principal],
        max_lifetime_ms: int,
    ) -> TokenInformation:
        """Creates a token. It can be renewed for `max_lifetime_ms` if that is positive and less
        than what the broker allows."""
        settings, now_ms = self._settings.broker, self._now_ms()
        longest_ms = settings.delegation_token_max_lifetime_ms
        if max_lifetime_ms > 0:
            longest_ms = min(longest_ms, max_lifetime_ms)
        max_ms = _sum(now_ms, longest_ms)
        token = TokenInformation(
            self._new_id(),
            owner,
            requester._replace(groups=()),
            tuple(renewers),
            issued_ms=now_ms,
            expires_ms=min(max_ms, _sum(now_ms, settings.delegation_token_expiry_time_ms)),
            max_ms=max_ms,
        )
        path, value = token_path(token.token_id), encode_token(token)
        assert path is not None
        if len(value) > _MAX_NODE_BYTES:
            # Every log-in by the token reads the node.
            raise ApiError(ErrorCode.POLICY_VIOLATION, "The token names too many renewers.")
        with as_api_errors():
            await change_node(self._cache, path, lambda _: value, parents=PARENTS)
        logger.info("delegation token %s was created for %s", token.token_id, owner)
        return token

    def _new_id(self) -> str:
        while True:
            text = base64.urlsafe_b64encode(self._random_bytes(_ID_BYTES)).rstrip(b"=").decode()
            # A tool would take it for a flag. Kafka makes no such id either.
            if not text.startswith("-"):
                return text

    async def renew(self, hmac: bytes, principal: Principal, period_ms: int) -> TokenInformation:
        """Lets a token end later; returns it as it is now."""
        settings, now_ms = self._settings.broker, self._now_ms()
        longest_ms = settings.delegation_token_expiry_time_ms
        if period_ms > 0:
            longest_ms = min(longest_ms, period_ms)

        def renewed(token: TokenInformation) -> TokenInformation:
            if token.is_expired(now_ms):
                raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            if not token.may_be_renewed_by(principal):
                raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
            return token._replace(expires_ms=min(token.max_ms, _sum(now_ms, longest_ms)))

        return await self._change(await self._path_of(hmac), renewed)

    async def expire(
        self, hmac: bytes, principal: Principal, period_ms: int, *, may_revoke_all: bool
    ) -> TokenInformation:
        """Lets a token end after a time, or removes it if `period_ms` is negative. With
        `may_revoke_all` a principal may remove tokens that are not its own. Returns the token with
        the time at which it ends."""
        now_ms = self._now_ms()

        def ended(token: TokenInformation) -> TokenInformation:
            is_allowed = may_revoke_all and period_ms < 0
            if not is_allowed and not token.may_be_renewed_by(principal):
                raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
            if period_ms < 0:
                return token._replace(expires_ms=now_ms)
            if token.is_expired(now_ms):
                raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            return token._replace(expires_ms=min(token.max_ms, _sum(now_ms, period_ms)))

        path = await self._path_of(hmac)
        if period_ms >= 0:
            return await self._change(path, ended)
        with as_api_errors():
            node = await self._store.read(path)
        if node is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        token = ended(_decoded(path, node.value))
        with as_api_errors():
            await self._remove(path)
        logger.info("delegation token %s was ended by %s", token.token_id, principal)
        return token

    async def _change(self, path: str, change: TokenChange) -> TokenInformation:
        def changed(value: bytes | None) -> bytes:
            if value is None:
                raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            return encode_token(change(_decoded(path, value)))

        with as_api_errors():
            written = await change_node(self._cache, path, changed)
        assert written is not None
        return decode_token(path, written)

    async def _remove(self, path: str, *, if_expired: bool = False) -> bool:
        """Removes the node of a token, whatever it holds by now; with `if_expired` only if nobody
        has renewed the token meanwhile. Returns whether it is gone."""
        tries = Tries(path)
        while (node := await self._store.read(path)) is not None:
            if if_expired and not decode_token(path, node.value).is_expired(self._now_ms()):
                return False
            try:
                await attempt(self._cache, Delete(path, node.version))
            except (BadVersion, NoNode):
                tries.lost_race()
            except OutcomeUnknown:
                tries.unknown_outcome()
        return True

    async def remove_expired(self) -> int:
        """Removes the tokens that have expired; returns how many there were. Raises
        `MetadataError` and `ApiError`."""
        removed = 0
        for token in await self.all():
            path = token_path(token.token_id)
            if path is not None and token.is_expired(self._now_ms()):
                removed += await self._remove(path, if_expired=True)
                logger.info("delegation token %s of %s has expired", token.token_id, token.owner)
        return removed


def _decoded(path: str, value: bytes) -> TokenInformation:
    try:
        return decode_token(path, value)
    except MalformedNode as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _MAX_TIME_MS)
