"""Reads the management ports of brokers: what the protocol does not tell.

A broker tells its `management.listener` to those who may read its settings (DescribeConfigs). A
port on 127.0.0.1 may belong to another machine's broker, and something else may listen there on
this one, so a port counts only if its `/status` names the broker and the cluster. A port that does
not answer is tried again after half a minute. Apache Kafka's brokers have none.

A scrape of thousands of partitions costs the broker something, so a port is read again only after
twenty times the time that the last answer took.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.admin.configs import ConfigCalls
from odradek.client.cluster_view import Broker
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError

SETTING: Final = "management.listener"
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
_TIMEOUT_S: Final = 2.0
_TRY_AGAIN_S: Final = 30.0
_REST: Final = 20.0
_MAX_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 256 * 1024
_ESCAPED: Final = re.compile(r"\\(.)")

Labels = tuple[tuple[str, str], ...]
Series = dict[str, dict[Labels, float]]

# The series that are kept; a test compares their names with the catalogue of metrics.
BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
MESSAGES_IN: Final = "kafka_server_brokertopicmetrics_messagesin_total"
REQUESTS: Final = "kafka_network_requestmetrics_requests_total"
TOTAL_TIME: Final = "kafka_network_requestmetrics_totaltimems"
CPU: Final = "process_cpu_seconds_total"
MEMORY: Final = "process_resident_memory_bytes"
CONNECTIONS: Final = "kafka_server_socket_server_metrics_connection_count"
LAG_SECONDS: Final = "kafka_consumergroup_max_lag_seconds"
NAMES: Final = frozenset(
    {
        BYTES_IN,
        BYTES_OUT,
        MESSAGES_IN,
        REQUESTS,
        TOTAL_TIME,
        CPU,
        MEMORY,
        CONNECTIONS,
        LAG_SECONDS,
    }
)


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """What one management port said. Counters only grow while the broker runs."""

    at_s: float
    state: str
    is_ready: bool
    series: Series = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float | None:
        """Returns the series with exactly these labels."""
        return self.series.get(name, {}).get(tuple(sorted(labels.items())))

    def whole(self, name: str) -> float | None:
        """Returns the figure of the whole broker: the sum of the series that are not of a topic."""
        found = [
            value
            for labels, value in self.series.get(name, {}).items()
            if not any(key == "topic" for key, _ in labels)
        ]
        return sum(found) if found else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Returns the series that have the label, by its value."""
        return {
            dict(labels)[label]: value
            for labels, value in self.series.get(name, {}).items()
            if any(key == label for key, _ in labels)
        }


@dataclass(frozen=True, slots=True)
class Readings:
    """The newest reading of a broker, and the one before it: their difference gives rates. Not
    every sample of the cluster has a new reading."""

    before: BrokerReading | None
    now: BrokerReading

    def rate(self, name: str) -> float | None:
        """Returns how fast the sum of a counter's series without the label `topic` grows."""
        if self.before is None:
            return None
        was, value = self.before.whole(name), self.now.whole(name)
        return growth(was, value, self.now.at_s - self.before.at_s)

    def rates_by(self, name: str, label: str) -> dict[str, float]:
        """Returns how fast a counter grows, by the value of a label."""
        if self.before is None:
            return {}
        was, passed_s = self.before.by_label(name, label), self.now.at_s - self.before.at_s
        # A series begins when it is first counted.
        found = {
            key: growth(was.get(key, 0.0), value, passed_s)
            for key, value in self.now.by_label(name, label).items()
        }
        return {key: rate for key, rate in found.items() if rate is not None}


def growth(before: float | None, now: float | None, passed_s: float) -> float | None:
    """Returns the growth a second. It is not known if the counter went back: the broker was started
    again, or a log was made smaller."""
    if before is None or now is None or passed_s <= 0 or now < before:
        return None
    return (now - before) / passed_s


@dataclass(slots=True)
class _Port:
    host: str
    port: int
    try_at_s: float = 0.0
    last: Readings | None = None


class ManagementPorts:
    """The ports of one cluster. `given` are addresses that the user named; without them the brokers
    are asked for theirs."""

    def __init__(self, given: Iterable[tuple[str, int]] = ()) -> None:
        self._given = tuple(given)
        self._given_try_at_s = 0.0
        self._ports: dict[int, _Port] = {}
        self._asked: set[int] = set()

    async def read(
        self, admin: ConfigCalls, cluster_id: str, brokers: Mapping[int, Broker], now_s: float
    ) -> dict[int, Readings]:
        """Returns the newest readings of each broker whose port answers."""
        if self._given:
            await self._find_given(cluster_id, now_s)
        else:
            await self._find_told(admin, brokers)
        due = [
            (broker, port)
            for broker, port in self._ports.items()
            if broker in brokers and now_s >= port.try_at_s
        ]
        await asyncio.gather(*(_refresh(port, broker, cluster_id) for broker, port in due))
        return {
            broker: port.last
            for broker, port in self._ports.items()
            if broker in brokers and port.last is not None
        }

    def unanswered(self) -> list[str]:
        """Returns the given addresses that are not known to be ports of this cluster."""
        known = {(port.host, port.port) for port in self._ports.values()}
        return [f"http://{host}:{port}" for host, port in self._given if (host, port) not in known]

    async def _find_told(self, admin: ConfigCalls, brokers: Mapping[int, Broker]) -> None:
        """Asks brokers that are new for their ports."""
        new = sorted(brokers.keys() - self._asked)
        self._asked = set(brokers)  # A broker that comes back may have another port.
        found = await asyncio.gather(*(_told(admin, brokers[broker]) for broker in new))
        for broker, address in zip(new, found, strict=True):
            if address is not None:
                self._ports[broker] = _Port(*address)

    async def _find_given(self, cluster_id: str, now_s: float) -> None:
        """Learns whose ports the given ones are, and tries again those that did not answer."""
        known = {(port.host, port.port) for port in self._ports.values()}
        missing = [address for address in self._given if address not in known]
        if not missing or now_s < self._given_try_at_s:
            return
        self._given_try_at_s = now_s + _TRY_AGAIN_S
        statuses = await asyncio.gather(*(_status(*address) for address in missing))
        for address, status in zip(missing, statuses, strict=True):
            if status is not None and status.get("cluster_id") == cluster_id:
                self._ports[int(str(status["broker_id"]))] = _Port(*address)


async def _told(admin: ConfigCalls, broker: Broker) -> tuple[str, int] | None:
    """Returns the address that a broker tells, or None if it tells none."""
    resource = ConfigResource(ConfigType.BROKER, str(broker.id))
    try:
        entries = (await admin.describe_configs([resource], [SETTING])).get(resource)
    except (KafkaError, ClientError, OSError):
        return None
    if entries is None or isinstance(entries, KafkaError) or SETTING not in entries:
        return None
    return address_of(entries[SETTING].value or "", broker.host)


def address_of(url: str, instead: str = "") -> tuple[str, int] | None:
    """Returns host and port of `http://host:port`, or None if it has no port. `instead` replaces a
    host that means every interface."""
    host, _, port = url.rpartition("//")[2].rstrip("/").rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        return None
    host = host.strip("[]")
    return (instead if host in _ANY_ADDRESS else host), int(port)


async def _refresh(port: _Port, broker: int, cluster_id: str) -> None:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    status = await _status(port.host, port.port)
    if status is None or (status.get("broker_id"), status.get("cluster_id")) != (
        broker,
        cluster_id,
    ):
        port.last, port.try_at_s = None, begun_s + _TRY_AGAIN_S
        return
    parser = SeriesParser()
    # An answer that is not complete would look as if counters had gone.
    is_whole = await _get(port.host, port.port, "/metrics", parser.feed)
    now_s = loop.time()
    series = parser.end() if is_whole else {}
    reading = BrokerReading(now_s, str(status.get("state")), bool(status.get("ready")), series)
    port.last = Readings(None if port.last is None else port.last.now, reading)
    port.try_at_s = now_s + _REST * (now_s - begun_s) if now_s - begun_s > 0.1 else 0.0


async def _status(host: str, port: int) -> dict[str, object] | None:
    text = bytearray()
    try:
        found = json.loads(text) if await _get(host, port, "/status", text.extend) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and "broker_id" in found else None


async def _get(host: str, port: int, path: str, take: Callable[[bytes], object]) -> bool:
    """Gives the body of an answer with status 200 to `take`, piece by piece: a broker with 10,000
    topics has 20 MB of metrics. Returns whether it came to its end. `http.client` is not used: it
    blocks, and its import takes longer than the answer."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                name = f"[{host}]" if ":" in host else host
                asked = f"GET {path} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n"
                writer.write(asked.encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if head.split()[1:2] != [b"200"]:
                    return False
                length = 0
                while length < _MAX_BYTES and (piece := await reader.read(_PIECE_BYTES)):
                    length += len(piece)
                    take(piece)
                return length < _MAX_BYTES
            finally:
                writer.close()
    except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError, UnicodeError):
        return False


class SeriesParser:
    """Reads the series of `NAMES` in Prometheus' text format, as it comes."""

    def __init__(self) -> None:
        self._series: Series = {}
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        lines, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self._rest += rest
            return
        for line in (self._rest + lines).split(b"\n"):
            if line.startswith((b"kafka_", b"process_")):
                self._take(line.decode("utf-8", "replace"))
        self._rest = rest

    def end(self) -> Series:
        """Returns the series, with that of a last line without an end."""
        self.feed(b"\n")
        return self._series

    def _take(self, line: str) -> None:
        head, _, value = line.rpartition(" ")
        name, brace, labels = head.partition("{")
        if name in NAMES:
            key = _labels(labels.removesuffix("}")) if brace else ()
            self._series.setdefault(name, {})[key] = float(value)


def _labels(text: str) -> Labels:
    labels = []
    while text:
        name, _, rest = text.partition('="')
        end = 0
        while rest[end] != '"':
            end += 2 if rest[end] == "\\" else 1
        value = rest[:end]
        if "\\" in value:
            value = _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
        labels.append((name, value))
        text = rest[end + 1 :].removeprefix(",")
    return tuple(sorted(labels))
