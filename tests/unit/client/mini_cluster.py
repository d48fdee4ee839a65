"""A few brokers in memory, at the protocol's level, for tests of the client.

They keep what was produced, check sequences as Kafka does, serve fetches, and do what a test
tells them: answer with an error, swallow an answer, move a leader, cut the log. They listen
through the running loop, so they live in a simulation, in virtual time.
"""

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from odradek.protocol.apis import all_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.framing import FrameSplitter
from odradek.protocol.headers import decode_request_header, encode_response
from odradek.protocol.messages import (
    api_versions,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import (
    BrokerId,
    LeaderEpoch,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
)
from tests.unit.client.mini_log import PartitionLog

PORT = 9092
SERVED = {0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 18: (0, 4), 22: (0, 5), 23: (2, 4)}

Fault = Callable[[Request], "Response | int | None"]
"""What to do with a request instead: a response, an error code, or None to do as usual."""


class Instead(Enum):
    """Faults beside those that are functions."""

    CLOSE = "end the connection instead of answering"
    LOSE = "do as asked, then end the connection before the answer is written"
    KEEP_SILENT = "do as asked, and do not answer"


Close: Final = Instead.CLOSE
Lose: Final = Instead.LOSE
KeepSilent: Final = Instead.KEEP_SILENT


class MiniCluster:
    """Brokers 1, 2, ... on hosts `broker1`, `broker2`, ... unless told where."""

    def __init__(self, brokers: int = 1, hosts: dict[int, str] | None = None) -> None:
        self.hosts = hosts or dict.fromkeys(range(1, brokers + 1), "127.0.0.1")
        self.ports = {node: PORT + node for node in self.hosts}
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.ids: dict[str, TopicId] = {}
        self.served = dict(SERVED)
        self.requests: list[tuple[int, Request, int]] = []
        self.faults: dict[type[Request], deque[Fault | Instead]] = defaultdict(deque)
        self.connections: list[_Peer] = []
        self.controller = BrokerId(1)
        self.next_producer_id = 1000
        self.auto_create_partitions = 0
        self.sessions: dict[int, dict[tuple[TopicId, int], fetch.FetchPartition]] = {}
        self.has_durable_sessions = True
        self._servers: dict[int, asyncio.Server] = {}
        self._change = asyncio.Event()
        self._speaks_tls = False

    async def start(self, tls: ssl.SSLContext | None = None) -> "MiniCluster":
        """With `tls` the brokers speak TLS, on free ports of the real network."""
        loop = asyncio.get_running_loop()
        self._speaks_tls = tls is not None
        options: dict[str, Any] = {} if tls is None else {"ssl": tls}
        for node, host in self.hosts.items():
            self._servers[node] = server = await loop.create_server(
                lambda node=node: _Peer(self, node),  # type: ignore[misc]
                host,
                self.ports[node] if tls is None else 0,
                **options,
            )
            if tls is not None:
                self.ports[node] = server.sockets[0].getsockname()[1]
        return self

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{self.ports[node]}" for node, host in self.hosts.items())

    def create(self, topic: str, partitions: int = 1) -> list[PartitionLog]:
        self.ids[topic] = TopicId(f"{topic:16}".encode()[:16])
        nodes = list(self.hosts)
        made = [
            PartitionLog(nodes[index % len(nodes)], self._changed) for index in range(partitions)
        ]
        for index, log in enumerate(made):
            self.logs[TopicPartition(topic, index)] = log
        return made

    def recreate(self, topic: str) -> list[PartitionLog]:
        """Deletes a topic and creates it again with another id; its old logs are out of reach."""
        count = sum(one.topic == topic for one in self.logs)
        before = self.ids[topic]
        made = self.create(topic, count)
        self.ids[topic] = TopicId(bytes(before[:-1]) + bytes([before[-1] + 1]))
        return made

    def fail_next(self, request: type[Request], *faults: Fault | Instead | int) -> None:
        """The next requests of a kind meet these faults, one each; an int is an error code."""
        for fault in faults:
            if isinstance(fault, int):
                self.faults[request].append(lambda _, code=fault: code)  # type: ignore[misc]
            else:
                self.faults[request].append(fault)

    def _changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()

    def drop_connections(self) -> None:
        for peer in list(self.connections):
            peer.transport.abort()

    def count(self, request: type[Request]) -> int:
        return sum(isinstance(one, request) for _, one, _ in self.requests)

    def name_of(self, topic_id: TopicId) -> str:
        return next((name for name, known in self.ids.items() if known == topic_id), "?")

    async def answer(self, node: int, request: Request, version: int) -> Response | Instead | None:
        self.requests.append((node, request, version))
        queue = self.faults[type(request)]
        code = 0
        if queue:
            fault = queue.popleft()
            if fault is Close:
                return Close
            if fault is Lose:
                await self._serve(node, request, version, 0)
                return Close
            if fault is KeepSilent:
                await self._serve(node, request, version, 0)
                return None
            assert not isinstance(fault, Instead)
            outcome = fault(request)
            if isinstance(outcome, int):
                code = outcome
            elif outcome is not None:
                return outcome
        return await self._serve(node, request, version, code)

    async def _serve(  # noqa: PLR0911 - one for each API
        self, node: int, request: Request, version: int, code: int
    ) -> Response | None:
        match request:
            case api_versions.ApiVersionsRequest():
                return api_versions.ApiVersionsResponse(
                    api_keys=[
                        api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
                        for key, (low, high) in self.served.items()
                    ]
                )
            case metadata.MetadataRequest():
                return self._metadata(request)
            case init_producer_id.InitProducerIdRequest():
                self.next_producer_id += 1
                return init_producer_id.InitProducerIdResponse(
                    error_code=code, producer_id=ProducerId(self.next_producer_id)
                )
            case produce.ProduceRequest():
                return self._produce(node, request, version, code)
            case fetch.FetchRequest():
                return await self._fetch(node, request, version, code)
            case list_offsets.ListOffsetsRequest():
                return self._list_offsets(node, request, code)
            case offset_for_leader_epoch.OffsetForLeaderEpochRequest():
                return self._epoch_ends(request)
            case _:
                raise AssertionError(f"unexpected {request}")

    def _metadata(self, request: metadata.MetadataRequest) -> Response:
        names = [one.name or "" for one in request.topics or ()]
        if request.topics is None:
            names = list(self.ids)
        topics = []
        for name in names:
            may_create = self.auto_create_partitions and request.allow_auto_topic_creation
            if name not in self.ids and may_create:
                self.create(name, self.auto_create_partitions)
            if name not in self.ids:
                topics.append(
                    metadata.MetadataResponseTopic(
                        name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                )
                continue
            topics.append(
                metadata.MetadataResponseTopic(
                    name=name,
                    topic_id=self.ids[name],
                    partitions=[
                        metadata.MetadataResponsePartition(
                            partition_index=one.partition,
                            leader_id=log.leader,
                            leader_epoch=log.leader_epoch,
                            replica_nodes=list(self.hosts),
                            isr_nodes=list(self.hosts),
                        )
                        for one, log in self.logs.items()
                        if one.topic == name
                    ],
                )
            )
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=node, host=host, port=self.ports[node])
                for node, host in self.hosts.items()
            ],
            cluster_id="mini",
            controller_id=self.controller,
            topics=topics,
        )

    def _produce(
        self, node: int, request: produce.ProduceRequest, version: int, code: int
    ) -> Response | None:
        responses = []
        for topic in request.topic_data:
            name = self.name_of(topic.topic_id) if version >= 13 else topic.name
            answers = []
            for data in topic.partition_data:
                log = self.logs.get(TopicPartition(name, data.index))
                error, base = code, -1
                hint = None
                if log is None:
                    answers.append(
                        produce.PartitionProduceResponse(
                            index=data.index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                        )
                    )
                    continue
                if not error and log.leader != node:
                    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    hint = produce.LeaderIdAndEpoch(
                        leader_id=log.leader, leader_epoch=log.leader_epoch
                    )
                if not error:
                    assert data.records is not None
                    error, base = log.append(bytes(data.records))
                answers.append(
                    produce.PartitionProduceResponse(
                        index=data.index,
                        error_code=error,
                        base_offset=base,
                        current_leader=hint,
                        log_start_offset=log.start_offset,
                    )
                )
            responses.append(
                produce.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return None if request.acks == 0 else produce.ProduceResponse(responses=responses)

    async def _fetch(
        self, node: int, request: fetch.FetchRequest, version: int, code: int
    ) -> Response:
        session_id, wanted = self._session(request, version)
        if wanted is None:
            return fetch.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.max_wait_ms / 1000
        while True:
            answers = {
                key: self._read(node, self.name_of(key[0]), one, code)
                for key, one in wanted.items()
            }
            news = any(answer.error_code or answer.records for answer in answers.values())
            if news or loop.time() >= deadline_s:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline_s):
                    await self._change.wait()
        topics: dict[TopicId, fetch.FetchableTopicResponse] = {}
        for (topic_id, _), answer in answers.items():
            if request.session_epoch > 0 and not (answer.error_code or answer.records):
                continue
            topic = topics.setdefault(
                topic_id,
                fetch.FetchableTopicResponse(topic=self.name_of(topic_id), topic_id=topic_id),
            )
            topic.partitions.append(answer)
        return fetch.FetchResponse(session_id=session_id, responses=list(topics.values()))

    def _session(
        self, request: fetch.FetchRequest, version: int
    ) -> tuple[int, dict[tuple[TopicId, int], fetch.FetchPartition] | None]:
        """The partitions to read: those of the request, or of the session with its changes."""

        def key(topic: fetch.FetchTopic | fetch.ForgottenTopic, index: int) -> tuple[TopicId, int]:
            return (topic.topic_id if version >= 13 else self.ids[topic.topic]), index

        named = {
            key(topic, one.partition): one for topic in request.topics for one in topic.partitions
        }
        if request.session_epoch > 0:
            session = self.sessions.get(request.session_id)
            if session is None:
                return 0, None
            for topic in request.forgotten_topics_data:
                for index in topic.partitions:
                    session.pop(key(topic, index), None)
            session.update(named)
            return request.session_id, session
        self.sessions.pop(request.session_id, None)
        if request.session_epoch < 0 or not self.has_durable_sessions:
            return 0, named
        session_id = len(self.requests)
        self.sessions[session_id] = named
        return session_id, named

    def _read(
        self, node: int, topic: str, asked: fetch.FetchPartition, code: int
    ) -> fetch.PartitionData:
        log = self.logs.get(TopicPartition(topic, asked.partition))
        answer = fetch.PartitionData(partition_index=asked.partition, error_code=code)
        if code:
            return answer
        if log is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif node in log.empty_followers and asked.current_leader_epoch == log.leader_epoch:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif log.leader != node:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer.current_leader = fetch.LeaderIdAndEpoch(
                leader_id=BrokerId(log.leader), leader_epoch=LeaderEpoch(log.leader_epoch)
            )
        elif not log.start_offset <= asked.fetch_offset <= log.end_offset:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            answer.high_watermark = answer.last_stable_offset = Offset(log.end_offset)
            answer.log_start_offset = Offset(log.start_offset)
            answer.records = log.read(asked.fetch_offset, asked.partition_max_bytes)
        return answer

    def _list_offsets(
        self, node: int, request: list_offsets.ListOffsetsRequest, code: int
    ) -> Response:
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.name, asked.partition_index)]
                answer = list_offsets.ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index, error_code=code
                )
                if not code and log.leader != node:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif asked.timestamp == -1:
                    answer.offset = Offset(log.end_offset)
                elif asked.timestamp == -2:
                    answer.offset = Offset(log.start_offset)
                else:
                    for record in log.records():
                        if record.timestamp_ms >= asked.timestamp:
                            answer.offset, answer.timestamp = record.offset, record.timestamp_ms
                            break
                answers.append(answer)
            topics.append(
                list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=answers)
            )
        return list_offsets.ListOffsetsResponse(topics=topics)

    def _epoch_ends(self, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest) -> Response:
        topics = []
        for topic in request.topics:
            ends = []
            for asked in topic.partitions:
                log = self.logs[TopicPartition(topic.topic, asked.partition)]
                end = min(log.epoch_ends.get(asked.leader_epoch, log.end_offset), log.end_offset)
                ends.append(
                    offset_for_leader_epoch.EpochEndOffset(
                        partition=asked.partition,
                        leader_epoch=asked.leader_epoch,
                        end_offset=Offset(end),
                    )
                )
            topics.append(
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=ends
                )
            )
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=topics)

    def kill(self, node: int) -> None:
        """One broker is gone: its connections end, and new ones are refused."""
        self._servers[node].close()
        for peer in list(self.connections):
            if peer.node == node:
                peer.transport.abort()

    async def stop(self) -> None:
        for server in self._servers.values():
            server.close()
        self.drop_connections()
        if self._speaks_tls:
            # A peer whose handshake failed is closed a moment later, and is in no list of ours.
            for server in self._servers.values():
                while server._active_count:  # type: ignore[attr-defined]  # noqa: ASYNC110
                    await asyncio.sleep(0)


class _Peer(asyncio.Protocol):
    """One client's connection: answers one request after the other, as brokers do."""

    transport: asyncio.Transport

    def __init__(self, cluster: MiniCluster, node: int) -> None:
        self._cluster = cluster
        self.node = node
        self._splitter = FrameSplitter(1 << 30)
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._cluster.connections.append(self)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            self._queue.put_nowait(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._cluster.connections:
            self._cluster.connections.remove(self)
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            frame = await self._queue.get()
            header, position = decode_request_header(frame)
            request = all_apis()[header.api_key].request.decode(frame, header.api_version, position)
            response = await self._cluster.answer(self.node, request, header.api_version)
            if response is Close:
                self.transport.abort()
                return
            if isinstance(response, Response):
                version = header.api_version
                if getattr(response, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION:
                    version = 0
                for part in encode_response(response, version, header.correlation_id):
                    self.transport.write(part)  # type: ignore[arg-type]
