"""What commands check before they start Java, which takes ten seconds or more: options, brokers,
topics, and directories.

Each check raises an error whose message is written for users. The same mistakes are also found
later, where Spark calls the data source; this only finds them sooner.
"""

import os
import shlex
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from odradek.client.sync import Admin
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.spark import clients
from odradek.spark.brokers import Brokers
from odradek.spark.option_names import BadOption, check_names
from odradek.spark.options import SinkOptions, SourceOptions
from odradek.spark.reachability import require_reachable

# Brokers say that a topic does not exist, or has no leader, while they create it.
_LOOKS: Final = 5
_LOOK_AGAIN_S: Final = 0.2
_BEING_CREATED: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
)


class BadPath(OSError):
    """A directory or file cannot be used; the message says why."""


@contextmanager
def closing_clients() -> Iterator[None]:
    """Surrounds checks. Their clients are closed afterwards, because a process should have no other
    threads when it starts Java."""
    try:
        yield
    finally:
        clients.close_admins()


def check_source(
    options: Mapping[str, str], *, is_streaming: bool, has_checkpoint: bool = False
) -> None:
    """Checks the options of a source, and that its topics can be read. A stream with a checkpoint
    goes on from there, so its starting offsets do not matter."""
    check_names(options, is_reading=True)
    source = SourceOptions.read(options, is_streaming=is_streaming)
    source.consumer_settings()
    brokers = Brokers(source)
    brokers.require_reachable()
    partitions = brokers.partitions()
    if source.starting.offsets and not has_checkpoint:
        brokers.resolve(source.starting, partitions, is_start=True)


def check_sink(options: Mapping[str, str]) -> None:
    """Checks the options of a stream's sink, and that its topic exists or is created by the
    brokers."""
    check_names(options, is_reading=False)
    sink = SinkOptions.read(options, is_streaming=True)
    sink.producer_settings()
    require_reachable(sink.admin_settings())
    if sink.topic is not None:
        _require_writable(clients.admin(sink.admin_settings()), sink.topic)


def _require_writable(admin: Admin, topic: str) -> None:
    question = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    for _ in range(_LOOKS):
        code = admin.request(question, MetadataResponse).topics[0].error_code
        if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise BadOption(f"{topic!r} cannot be the name of a topic")
        if code not in _BEING_CREATED:
            return
        time.sleep(_LOOK_AGAIN_S)
    raise BadOption(
        f"topic {topic} does not exist, and the brokers do not create it; create it with: odradek"
        f" topics --create --topic {shlex.quote(topic)}"
    )


def check_directory(flag: str, path: str, *, must_exist: bool) -> None:
    """Checks that a directory of this machine can be read or, unless it must exist, written. Paths
    of other filesystems are left to Spark."""
    local = local_path(path)
    if local is None:
        if urlsplit(path).scheme in {"s3", "s3n"}:
            raise BadPath(f"{flag} {path}: write s3a://, the name of Hadoop's filesystem for S3")
        return
    if os.path.exists(local):
        if not os.path.isdir(local):
            raise BadPath(f"{flag} {path} is a file, and not a directory")
        needed = os.R_OK | os.X_OK if must_exist else os.R_OK | os.W_OK | os.X_OK
        if not os.access(local, needed):
            raise BadPath(f"{flag} {path} cannot be {'read' if must_exist else 'written'}")
        return
    if must_exist:
        raise BadPath(f"{flag} {path} does not exist (here is {os.getcwd()})")
    _require_writable_parent(flag, path, os.path.dirname(os.path.abspath(local)))


def check_archive(flag: str, path: str) -> None:
    """Checks that a directory of this machine holds an archive."""
    from odradek.spark.archive.entries import LOG  # noqa: PLC0415 - only archives need it

    local = local_path(path)
    if local is not None and not os.path.isdir(os.path.join(local, LOG)):
        raise BadPath(
            f"{flag} {path} holds no archive; `odradek archive --topic NAME --to {path}` makes one"
        )


def check_archived_topic(flag: str, path: str, topic: str) -> None:
    """Checks that an archive on this machine names a topic. What else is wrong with the archive is
    left to the archive itself."""
    from odradek.spark.archive.entries import (  # noqa: PLC0415 - only archives need it
        LOG,
        DamagedArchive,
        topics_in,
    )

    local = local_path(path)
    if local is None:
        return
    log = os.path.join(local, LOG)
    texts = {}
    try:
        for name in os.listdir(log):
            with open(os.path.join(log, name), "rb") as file:
                texts[name] = file.read()
        topics = topics_in(texts)
    except (OSError, DamagedArchive):
        return
    if topic not in topics:
        raise BadPath(f"{flag} {path}: {not_archived(topic, topics)}")


def not_archived(topic: str, topics: Collection[str]) -> str:
    """Returns why a topic cannot be restored: the archive has only others."""
    if not topics:
        return f"nothing is archived there yet; odradek archive --topic {shlex.quote(topic)} does"
    near = did_you_mean(topic, topics) or f"; there are {', '.join(sorted(topics))}"
    return f"topic {topic} is not archived there{near}"


def check_output_file(flag: str, path: str) -> None:
    """Checks that a file can be written; its directory must exist."""
    directory = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise BadPath(f"{flag} {path} is a directory; name a file in it")
    if not os.path.isdir(directory):
        raise BadPath(f"{flag} {path}: there is no directory {directory}")
    target = path if os.path.exists(path) else directory
    if not os.access(target, os.W_OK):
        raise BadPath(f"{flag} {path} cannot be written")


def _require_writable_parent(flag: str, path: str, parent: str) -> None:
    """Spark creates missing directories; the lowest one that exists must allow it."""
    first = os.path.abspath(local_path(path) or path)
    while not os.path.exists(parent):
        first = parent
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise BadPath(f"{flag} {path} cannot be created: {parent} is a file")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise BadPath(f"{flag} {path} cannot be created: {parent} cannot be written")
    try:
        # Some filesystems refuse it to everybody, /proc for example.
        os.mkdir(first)
        os.rmdir(first)
    except OSError as error:
        raise BadPath(
            f"{flag} {path} cannot be created in {parent}: {error.strerror}; name another place"
        ) from None


def local_path(path: str) -> str | None:
    """Returns the path of a file on this machine, or None for another filesystem."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if parts.scheme else path
