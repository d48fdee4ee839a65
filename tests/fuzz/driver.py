"""Sends inputs over many connections and judges what comes back.

Each input is followed by a small request whose answer is known. So every input ends in one of
these ways, and only in these: an answer that is well formed and bears the input's correlation
id; no answer where none is due (acks=0); the connection closed; or, for a frame that is not
whole and for a fetch that waits, silence.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from time import perf_counter

from odradek.protocol.apis import find_api
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.headers import decode_request_header, decode_response, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from tests.fuzz.inputs import Input, InputSource
from tests.fuzz.wire import MalformedAnswer, Wire

_SENTINEL_ID = 0x5E47_1E1D
# b"".join: encode_request gives parts, and all of these are bytes.
_SENTINEL = b"".join(
    encode_request(ApiVersionsRequest(), 0, _SENTINEL_ID, None)  # type: ignore[arg-type]
)
_WAITING = {
    FetchRequest.api_key,
    ProduceRequest.api_key,
    JoinGroupRequest.api_key,
    SyncGroupRequest.api_key,
}
_MAX_SHOWN = 20
_SLOW_S = 0.02
_SILENCE_S = 0.3
_TORN_S = 0.03
_PATIENCE_S = 20.0


class Driver:
    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self.outcomes: Counter[str] = Counter()
        self.by_kind: Counter[str] = Counter()
        self.violations: list[str] = []
        self.violation_count = 0
        self.sent_bytes = 0
        self.slowest: list[tuple[float, str]] = []

    async def run(self, source: InputSource, numbers: Iterable[int], connections: int) -> None:
        shared = iter(numbers)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(connections):
                tasks.create_task(self._work(source, shared))

    async def _work(self, source: InputSource, numbers: Iterator[int]) -> None:
        wire: Wire | None = None
        for number in numbers:
            if wire is None:
                wire = await Wire.open(*self._address)
            entry = source.input(number)
            self.by_kind[entry.kind] += 1
            self.sent_bytes += len(entry.data)
            begun = perf_counter()
            outcome, keep = await self._try(wire, entry, number)
            self.outcomes[outcome] += 1
            if outcome != "silence":
                self._note_time(entry, number, perf_counter() - begun)
            if not keep:
                wire.close()
                wire = None
        if wire is not None:
            wire.close()

    async def _try(self, wire: Wire, entry: Input, number: int) -> tuple[str, bool]:
        try:
            wire.write(entry.data + _SENTINEL if entry.is_framed else entry.data)
            await wire.drain()
            async with asyncio.timeout(patience_s(entry)):
                return await self._answers(wire, entry)
        except TimeoutError:
            if entry.is_framed and not may_wait(entry):
                self._violation(entry, number, f"no answer within {patience_s(entry)} s")
            return "silence", False
        except ConnectionError:
            if entry.kind == "valid" and not has_no_acks(entry):
                self._violation(entry, number, "a valid request ended the connection")
            return "closed", False
        except (MalformedAnswer, MalformedMessage) as error:
            self._violation(entry, number, str(error))
            return "malformed answer", False

    async def _answers(self, wire: Wire, entry: Input) -> tuple[str, bool]:
        frame = await wire.read_frame()
        (correlation_id,) = struct.unpack_from(">i", frame)
        if not entry.is_framed:
            # Whatever the broker took for a request, it is to answer in whole frames.
            return "answered", False
        if correlation_id == _SENTINEL_ID and entry.correlation_id != _SENTINEL_ID:
            if entry.api_key != ProduceRequest.api_key:
                raise MalformedAnswer("the request was passed over")
            return "no answer due", True
        if correlation_id != entry.correlation_id:
            raise MalformedAnswer(f"correlation id {correlation_id}, not {entry.correlation_id}")
        check_answer(frame, entry)
        following = await wire.read_frame()
        if struct.unpack_from(">i", following) != (_SENTINEL_ID,):
            raise MalformedAnswer("a second answer to one request")
        return "answered", True

    def _note_time(self, entry: Input, number: int, elapsed_s: float) -> None:
        """Keeps the slowest answers. With one connection they are the input's own fault."""
        if (elapsed_s > _SLOW_S and not may_wait(entry)) or elapsed_s > 2 * _SLOW_S:
            self.slowest.append((elapsed_s, _describe(entry, number)))
            self.slowest.sort(reverse=True)
            del self.slowest[_MAX_SHOWN:]

    def _violation(self, entry: Input, number: int, reason: str) -> None:
        self.violation_count += 1
        if len(self.violations) < _MAX_SHOWN:
            shown = entry.data[:200].hex()
            self.violations.append(f"{_describe(entry, number)}: {reason}: {shown}")


def _describe(entry: Input, number: int) -> str:
    api = find_api(entry.api_key)
    name = api.name if api else f"API {entry.api_key}"
    return f"input {number} ({entry.kind}, {name} v{entry.api_version})"


def may_wait(entry: Input) -> bool:
    """A fetch may ask to wait for long, a produce request for replicas, a member for others."""
    return entry.api_key in _WAITING


def has_no_acks(entry: Input) -> bool:
    """Whoever wants no answer learns of an error by the end of the connection."""
    if entry.api_key != ProduceRequest.api_key:
        return False
    _, position = decode_request_header(entry.data[4:])
    return ProduceRequest.decode(entry.data, entry.api_version, position + 4).acks == 0


def patience_s(entry: Input) -> float:
    if not entry.is_framed:
        return _TORN_S
    return _SILENCE_S if may_wait(entry) else _PATIENCE_S


def check_answer(frame: bytes, entry: Input) -> None:
    """Raises `MalformedMessage` unless the answer is what this API and version promise."""
    api = find_api(entry.api_key)
    if api is None:
        return
    if api.min_version <= entry.api_version <= api.max_version:
        try:
            decode_response(frame, entry.api_key, entry.api_version)
        except MalformedMessage:
            # Of ApiVersions a broker that knows less answers in version 0.
            if entry.api_key != ApiVersionsRequest.api_key:
                raise
            decode_response(frame, entry.api_key, 0)
    elif entry.api_key == ApiVersionsRequest.api_key:
        decode_response(frame, entry.api_key, 0)
