"""The actions of `odradek zookeeper-shell`: its commands, from arguments or standard input."""

import shlex
import sys
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from odradek.cli.cluster.metadata_stores import OpenStore, opened
from odradek.cli.cluster.zookeeper_shell import LOOKING
from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import attempt
from odradek.metadata.paths import BROKER_IDS, CONTROLLER
from odradek.metadata.store import Delete, MetadataError, Node, NoNode
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.standard_input import input_is_terminal, input_lines
from odradek.tools.terminal import flush_out, print_json, write_out

_HELP: Final = """\
ls [-s] [-R] PATH      the names of the nodes below a path
get [-s] PATH          the value of a node
stat PATH              its version and the like
delete /controller     starts the election of a new controller
quit"""
_ENDING: Final = frozenset({"quit", "exit", "close"})

# Which tool changes the nodes below a path.
_TOOLS: Final = {
    "/brokers/topics": "odradek topics, or odradek reassign-partitions",
    "/admin/delete_topics": "odradek topics --delete --topic NAME",
    "/admin/reassign_partitions": "odradek reassign-partitions",
    "/admin/preferred_replica_election": "odradek leader-election",
    "/config": "odradek configs --alter",
    "/kafka-acl": "odradek acls",
    "/consumers": "odradek consumer-groups --reset-offsets",
}


async def perform(
    address: str, command: Sequence[str], *, as_json: bool, zookeeper_file: str | None = None
) -> int:
    """Carries out one command, or those of standard input. Returns the exit code."""
    async with opened(address, zookeeper_file) as store:
        if command:
            await _carry_out(store, list(command), as_json=as_json)
            return 0
        return await _converse(store, address, as_json=as_json)


async def _converse(store: OpenStore, address: str, *, as_json: bool) -> int:
    """Reads commands until the input ends. A command that fails does not end the conversation."""
    if input_is_terminal():
        print(f"{address}: type help for the commands, quit to leave", flush=True)
    prompt = f"[{address}] ".encode()
    async for lines in input_lines(prompt):
        for line in lines:
            words = _words(line.decode("utf-8", "replace"))
            if words and words[0] in _ENDING:
                return 0
            try:
                if words:
                    await _carry_out(store, words, as_json=as_json)
            except (CommandFailed, MetadataError) as error:
                print(error, file=sys.stderr)
            sys.stdout.flush()
    return 0


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


async def _carry_out(store: OpenStore, words: list[str], *, as_json: bool) -> None:
    name, *rest = words
    flags = {word for word in rest if word.startswith("-")}
    paths = [word for word in rest if not word.startswith("-")]
    if name == "help":
        print(_HELP)
    elif name in LOOKING and as_json:
        print_json(await _as_json(store, name, _path(name, paths), recursive="-R" in flags))
    elif name in {"ls", "ls2"}:
        await _list(store, _path(name, paths), flags | ({"-s"} if name == "ls2" else set()))
    elif name in {"get", "stat"}:
        await _show(
            store, _path(name, paths), value=name == "get", stat=name == "stat" or "-s" in flags
        )
    elif name in {"create", "set", "delete", "deleteall", "rmr"}:
        await _change(store, name, _path(name, paths))
    else:
        raise UsageError(f"{name} is not a command here; help lists them")


def _path(name: str, paths: list[str]) -> str:
    if not paths or not paths[0].startswith("/"):
        raise UsageError(f"{name} takes a path, as in: {name} /brokers/ids")
    return paths[0].rstrip("/") or "/"


async def _list(store: OpenStore, path: str, flags: set[str]) -> None:
    if "-R" in flags:
        paths = list(await store.nodes.read_tree(path))
        if not paths:
            raise _missing(store, path)
        print("\n".join(sorted(paths)))
        return
    node = await _read(store, path)
    children = await store.nodes.children(path)
    print(f"[{', '.join(children)}]")
    if "-s" in flags:
        print(_stat(node, len(children)))


async def _show(store: OpenStore, path: str, *, value: bool, stat: bool) -> None:
    node = await _read(store, path)
    if value:
        write_out(node.value + b"\n")
        flush_out()
    if stat:
        print(_stat(node, len(await store.nodes.children(path))))


async def _as_json(store: OpenStore, name: str, path: str, *, recursive: bool) -> dict[str, object]:
    """Returns what `ls`, `get` or `stat` shows, always with the node's state."""
    node = await _read(store, path)
    children = await store.nodes.children(path)
    shown: dict[str, object] = {"path": path}
    if name.startswith("ls"):
        shown["children"] = sorted(children)
    if name.startswith("ls") and recursive:
        shown["paths"] = sorted(await store.nodes.read_tree(path))
    if name == "get":
        shown["value"] = _text_or_base64(node.value)
    return shown | {
        "version": node.version,
        "created": node.created,
        "ephemeralOwner": node.owner,
        "dataLength": len(node.value),
        "numChildren": len(children),
    }


def _text_or_base64(value: bytes) -> object:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


async def _read(store: OpenStore, path: str) -> Node:
    node = await store.nodes.read(path)
    if node is not None:
        return node
    if path == "/":
        return Node(b"", 0, 0)
    raise _missing(store, path)


def _missing(store: OpenStore, path: str) -> CommandFailed:
    if store.is_copy and (path == CONTROLLER or path.startswith(BROKER_IDS + "/")):
        return CommandFailed(
            f"{path} is not in the file: a lone broker keeps it in memory while it runs;"
            " ask it with: odradek cluster list-endpoints"
        )
    return CommandFailed(str(NoNode(path)))


def _stat(node: Node, children: int) -> str:
    return "\n".join(
        (
            f"cZxid = {node.created:#x}",
            f"dataVersion = {node.version}",
            f"ephemeralOwner = {node.owner:#x}",
            f"dataLength = {len(node.value)}",
            f"numChildren = {children}",
        )
    )


async def _change(store: OpenStore, name: str, path: str) -> None:
    """Deletes `/controller`. Other changes are refused: brokers rely on the versions of nodes, and
    some changes belong together."""
    if path != CONTROLLER or name in {"create", "set"}:
        tools = (
            tool for root, tool in _TOOLS.items() if path == root or path.startswith(root + "/")
        )
        tool = next(tools, "the tools for topics, settings and ACLs: odradek --help")
        raise CommandFailed(f"{name} {path} is refused: brokers rely on this node; use {tool}")
    if store.is_copy:
        raise CommandFailed("a lone broker is always the controller; there is nothing to elect")
    node = await store.nodes.read(CONTROLLER)
    if node is None:
        raise CommandFailed("there is no controller just now; the brokers elect one")
    await attempt(MetadataCache(store.nodes), Delete(CONTROLLER, node.version))
    print("deleted /controller: the brokers elect a new controller")
