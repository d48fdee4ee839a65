"""A private key with its certificates, and the refusals that every format of store shares."""

from dataclasses import dataclass, field
from typing import NoReturn

from odradek.config.setting import InvalidSetting
from odradek.security.tls.settings import Store


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key and the certificates that belong to it in PEM, the own one first. The key may
    be encrypted: then `key_password` opens it."""

    key: str = field(repr=False)
    chain: tuple[str, ...]
    key_password: str | None = field(default=None, repr=False)


def refuse_store(store: Store, reason: str) -> NoReturn:
    """Raises `InvalidSetting` for the file of a store."""
    raise InvalidSetting(store.prefix + "location", store.location, reason) from None


def refuse_password(store: Store) -> NoReturn:
    """Raises `InvalidSetting` for the password of a store, which is wrong or missing."""
    name = store.prefix + "password"
    if store.password is None:
        reason = f"must be set: {store.location} needs a password"
        raise InvalidSetting(name, None, reason) from None
    reason = f"it does not open {store.location}, or that file is damaged"
    raise InvalidSetting(name, "(hidden)", reason) from None


def refuse_key_password(store: Store) -> NoReturn:
    """Raises `InvalidSetting` for the password of a private key, which is wrong or missing."""
    name = store.key_password_property
    place = store.location or store.prefix + "key"
    if store.key_password is None:
        reason = f"must be set: the key in {place} has a password"
        raise InvalidSetting(name, None, reason) from None
    raise InvalidSetting(name, "(hidden)", f"it does not open the key in {place}") from None
