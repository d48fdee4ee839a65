"""What SCRAM checks passwords against: stored credentials of users, and delegation tokens.

The credential of a token is computed from its HMAC, which is its password. That takes milliseconds
and is done in a worker thread. The credentials of the tokens that were used last are remembered, so
that a client that knows the id of a token and guesses at its password costs little.
"""

import hmac
from collections import OrderedDict
from typing import Final

from odradek.cluster.cluster_secret import ClusterSecret
from odradek.cluster.configs import Configs
from odradek.cluster.delegation_tokens import DelegationTokens
from odradek.metadata import MetadataError
from odradek.security.principals import GROUP
from odradek.security.sasl.server.exchange import Login, LoginFailed
from odradek.security.sasl.server.scram import Account, UnknownUser
from odradek.security.scram import (
    MAX_NAME_LENGTH,
    MIN_ITERATIONS,
    MalformedCredential,
    ScramCredential,
    ScramMechanism,
    salt_from,
    salted_password,
)
from odradek.world import World

_MAX_REMEMBERED: Final = 1000


class ScramAccounts:
    """The users and tokens of a cluster, for all SCRAM mechanisms of a broker."""

    def __init__(
        self,
        configs: Configs,
        tokens: DelegationTokens | None,
        secret: ClusterSecret,
        world: World,
    ) -> None:
        self._configs = configs
        self._tokens = tokens
        self._secret = secret
        self._workers = world.workers
        self._of_tokens: OrderedDict[tuple[str, ScramMechanism], ScramCredential] = OrderedDict()

    async def find(
        self, name: str, mechanism: ScramMechanism, *, is_token: bool
    ) -> Account | UnknownUser:
        """Returns the credential of a user or a token. For a name that does not exist it returns a
        salt, with which the exchange goes on and fails at its end. Raises `LoginFailed` if the
        credentials cannot be read."""
        find = self._token if is_token else self._user
        try:
            salt = await self._salt(name, mechanism, is_token=is_token)
            # A longer name is nobody's. Everybody may ask, and ZooKeeper closes the connection of a
            # broker whose request, in which some characters of a path become nine, is too large.
            is_too_long = len(name) > MAX_NAME_LENGTH
            found = None if is_too_long else await find(name, mechanism, salt)
        except MetadataError as error:
            raise LoginFailed(f"credentials cannot be read: {error}", user=name) from None
        except MalformedCredential as error:
            raise LoginFailed(str(error), user=name) from None
        return UnknownUser(salt) if found is None else found

    async def _salt(self, name: str, mechanism: ScramMechanism, *, is_token: bool) -> bytes:
        """Returns the salt of a token, and of a user or a token that does not exist.

        It is always the same at all brokers, and has the form of a salt that Kafka's tools make.
        Like the salts of a user who exists, those of the two mechanisms differ, and that of a token
        with the same name differs too. So a client that compares salts does not learn which users
        exist.
        """
        asked = f"{mechanism.kafka_name},{'token' if is_token else 'user'},{name}"
        return salt_from(hmac.digest(await self._secret.get(), asked.encode(), "sha256"))

    async def _user(self, name: str, mechanism: ScramMechanism, _: bytes) -> Account | None:
        stored = (await self._configs.user(name)).get(mechanism.kafka_name)
        return None if stored is None else Account(ScramCredential.decode(stored), Login(name))

    async def _token(self, name: str, mechanism: ScramMechanism, salt: bytes) -> Account | None:
        token = None if self._tokens is None else await self._tokens.find(name)
        if self._tokens is None or token is None:
            return None
        key = (token.token_id, mechanism)
        credential = self._of_tokens.get(key)
        if credential is None:
            password = self._tokens.password_of(token.token_id)
            salted = await self._workers.run_blocking(
                lambda: salted_password(mechanism, password, salt, MIN_ITERATIONS)
            )
            credential = ScramCredential.derive(mechanism, MIN_ITERATIONS, salt, salted)
            self._of_tokens[key] = credential
            if len(self._of_tokens) > _MAX_REMEMBERED:
                self._of_tokens.popitem(last=False)
        self._of_tokens.move_to_end(key)
        groups = tuple(group.removeprefix(f"{GROUP}:") for group in token.owner.groups)
        login = Login(token.owner.name, token.expires_ms, groups, token_id=token.token_id)
        return Account(credential, login)
