"""Removes delegation tokens that have expired, on the controller.

Nobody can log in with an expired token even while its node exists, so this only keeps the metadata
store small. Each removal checks the version of the token's node, so it does no harm if two brokers
take themselves for the controller.
"""

import asyncio
import logging
from typing import Final

from odradek.cluster.controller import Controller
from odradek.cluster.delegation_tokens import DelegationTokens
from odradek.config.live import LiveSettings
from odradek.metadata import MetadataError
from odradek.protocol.api_error import ApiError

logger: Final = logging.getLogger("odradek.tokens")


class TokenExpiry:
    def __init__(
        self, tokens: DelegationTokens, controller: Controller, settings: LiveSettings
    ) -> None:
        self._tokens = tokens
        self._controller = controller
        self._settings = settings

    async def run(self) -> None:
        """Looks for expired tokens at every interval until cancelled."""
        while True:
            interval_ms = self._settings.broker.delegation_token_expiry_check_interval_ms
            await asyncio.sleep(interval_ms / 1000)
            if not self._controller.is_active:
                continue
            try:
                await self._tokens.remove_expired()
            except (MetadataError, ApiError) as error:
                logger.warning("expired delegation tokens are removed later: %s", error)
