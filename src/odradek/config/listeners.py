"""Parses listeners, `NAME://host:port`, and the maps from listener names and addresses."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from odradek.config.setting import (
    Importance,
    Kind,
    Scope,
    Setting,
)
from odradek.config.spelling import Speller
from odradek.config.values import InvalidValue, in_a_line, parse_list

T = TypeVar("T")

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """Where a broker listens, or where clients find it. An empty host means every address."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listener(text: str) -> Listener:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isascii() or not port.isdigit():
        raise InvalidValue(
            f"{in_a_line(text)} is not a listener; write it as PLAINTEXT://host:9092"
        )
    if int(port) > 65535:
        raise InvalidValue(f"the port {in_a_line(port)} of {in_a_line(text)} is more than 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InvalidValue(
            f"the address of {in_a_line(text)} needs brackets, as in PLAINTEXT://[::1]:9092"
        )
    return Listener(name.upper(), host, int(port))


def parse_listeners(text: str) -> tuple[Listener, ...]:
    listeners = tuple(map(parse_listener, parse_list(text)))
    if not listeners:
        raise InvalidValue("there must be at least one listener, as in PLAINTEXT://:9092")
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise InvalidValue("each listener needs a name of its own")
    ports = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(ports)) != len(ports):
        raise InvalidValue("each listener needs a port of its own")
    return listeners


def _parse_advertised(text: str) -> tuple[Listener, ...] | None:
    if not text:
        return None
    listeners = tuple(map(parse_listener, parse_list(text)))
    for listener in listeners:
        if listener.host in ("0.0.0.0", "::"):  # noqa: S104  - refused, not bound
            raise InvalidValue(f"clients cannot connect to {listener.host}; name this machine")
    return listeners


def parse_protocol_map(text: str) -> Mapping[str, str]:
    protocols: dict[str, str] = {}
    for entry in parse_list(text):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not colon or protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            hint = Speller(SECURITY_PROTOCOLS).hint(protocol)
            raise InvalidValue(f"{in_a_line(entry)} is not NAME:PROTOCOL with one of {known}{hint}")
        protocols[name] = protocol
    return protocols


def parse_address_limits(text: str) -> Mapping[str, int]:
    limits: dict[str, int] = {}
    for entry in parse_list(text):
        host, colon, limit = entry.rpartition(":")
        if not colon or not host or not limit.isascii() or not limit.isdigit():
            raise InvalidValue(f"{in_a_line(entry)} is not address:limit, as in 127.0.0.1:200")
        limits[host.strip("[]")] = int(limit)
    return limits


def _write_pairs(value: object) -> str:
    assert isinstance(value, Mapping)  # the readers above make nothing else
    return ",".join(f"{name}:{target}" for name, target in value.items())


def listeners(
    name: str, default: tuple[Listener, ...], doc: str, *, scope: Scope
) -> Setting[tuple[Listener, ...]]:
    return Setting(
        name,
        Kind.LIST,
        default,
        doc,
        read=parse_listeners,
        expected="listeners separated by commas, as in PLAINTEXT://:9092",
        scope=scope,
        importance=Importance.HIGH,
    )


def advertised_listeners(
    name: str, doc: str, *, scope: Scope
) -> Setting[tuple[Listener, ...] | None]:
    return Setting(
        name,
        Kind.LIST,
        None,
        doc,
        read=_parse_advertised,
        expected="listeners separated by commas, as in PLAINTEXT://kafka.example.org:9092",
        scope=scope,
        importance=Importance.HIGH,
    )


def pairs(
    name: str,
    default: Mapping[str, T],
    doc: str,
    *,
    read: Callable[[str], Mapping[str, T]],
    expected: str,
    scope: Scope,
) -> Setting[Mapping[str, T]]:
    return Setting(
        name,
        Kind.STRING,
        default,
        doc,
        read=read,
        expected=expected,
        write=_write_pairs,
        scope=scope,
    )
