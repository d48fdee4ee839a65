"""How properties files that were written for Apache Kafka are interpreted.

`BrokerSettings` calls `interpret` when all values are parsed. A setting that does not mean the same
here must not be ignored in silence, so each rule below obeys it, refuses it with `InvalidSetting`,
or adds a warning:

1. `zookeeper.connect` chooses the ZooKeeper store, as it does in Kafka up to 3.9.
2. `broker.id=-1`, and no id at all on ZooKeeper, ask for an id from the store
   (`broker.id.generation.enable`); it is refused where no ids are generated.
3. Listeners named in `controller.listener.names` belong to KRaft controllers and are not opened.
4. A broker that belongs to a KRaft quorum of other processes is refused, unless a metadata store
   was chosen: it would start as a cluster of its own.
5. `log.dirs` wins over `log.dir`; if both are set and differ, a warning says so.
6. A setting that is obeyed in part only gives a warning. As in Kafka, classic groups cannot be
   switched off.
7. Protection that would be missing (revoked certificates of ZooKeeper, secrets from a provider) is
   refused.

`REFUSALS` lists what is refused although Kafka accepts it, for the reference of settings.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.config.coordinator_settings import GroupSettings
from odradek.config.listeners import Listener
from odradek.config.setting import (
    InvalidSetting,
)
from odradek.config.values import parse_list

GENERATED_ID: Final = -1

_STORE: Final = "odradek.metadata.store"
_NOT_CHECKED: Final = "certificates of ZooKeeper are not looked up in lists; set it to false"
_REFUSED_IF_TRUE: Final = {
    "zookeeper.ssl.crl.enable": _NOT_CHECKED,
    "zookeeper.ssl.ocsp.enable": _NOT_CHECKED,
}


class Refusal(NamedTuple):
    """A setting of Kafka with which this broker does not start, or does not create a topic.

    `example` has a value that is refused: the reference shows the line that a user sees for it.
    """

    name: str
    when: str
    otherwise: str
    example: Mapping[str, str]
    is_of_topics: bool = False


_NO_QUORUM: Final = "without effect: there is no KRaft quorum"
_SEVERAL: Final = (
    f"it names several controllers, or process.roles is broker, and neither {_STORE} nor"
    " zookeeper.connect is set"
)
REFUSALS: Final = (
    Refusal("config.providers", "it is set", "without effect", {"config.providers": "file"}),
    Refusal(
        "controller.listener.names",
        "every listener is named in it",
        "the listeners named in it are not opened",
        {
            "controller.listener.names": "CONTROLLER",
            "listeners": "CONTROLLER://:9093",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        },
    ),
    *(
        Refusal(name, _SEVERAL, _NO_QUORUM, {name: "1@one:9093,2@two:9093"})
        for name in ("controller.quorum.bootstrap.servers", "controller.quorum.voters")
    ),
    Refusal("process.roles", "broker is not in it", _NO_QUORUM, {"process.roles": "controller"}),
    Refusal(
        "remote.storage.enable",
        "it is true",
        "without effect: there is no tiered storage",
        {"remote.storage.enable": "true"},
        is_of_topics=True,
    ),
    *(Refusal(name, "it is true", "without effect", {name: "true"}) for name in _REFUSED_IF_TRUE),
)


def interpret(values: dict[str, object], given: Mapping[str, str], warnings: list[str]) -> None:
    """Changes `values`, by attribute, by the rules above; `given` are the texts that were set."""
    _refuse_missing_protection(given)
    _choose_store(values, given, warnings)
    _choose_id(values, given)
    _leave_out_controller_listeners(values, given)
    _refuse_quorum(values, given)
    _warn_of_partly_obeyed(values, warnings)
    log_dir, log_dirs = given.get("log.dir"), given.get("log.dirs")
    if log_dir is not None and log_dirs is not None and log_dir.strip() != log_dirs.strip():
        warnings.append(f"log.dir={log_dir} is ignored: log.dirs={log_dirs} wins")


def _warn_of_partly_obeyed(values: dict[str, object], warnings: list[str]) -> None:
    """Warns of settings of which only a part is obeyed."""
    threads = values["log_cleaner_threads"]
    assert isinstance(threads, int)
    if threads > 1:
        warnings.append(f"log.cleaner.threads={threads}: one log is compacted at a time")
    protocols = values["group_coordinator_rebalance_protocols"]
    assert isinstance(protocols, tuple)
    declared = GroupSettings.group_coordinator_rebalance_protocols
    name = declared.name
    if "classic" not in protocols:
        raise InvalidSetting(name, ",".join(protocols), "classic groups cannot be switched off")
    if protocols != declared.default:
        missing = [kind for kind in ("streams", "share") if kind in protocols]
        warnings += [f"{name}: there are no groups of kind {kind}" for kind in missing]


def _refuse_missing_protection(given: Mapping[str, str]) -> None:
    for name, reason in _REFUSED_IF_TRUE.items():
        if given.get(name, "").strip().lower() == "true":
            raise InvalidSetting(name, "true", reason)
    if providers := given.get("config.providers", "").strip():
        raise InvalidSetting(
            "config.providers",
            providers,
            "values are not looked up in providers; write them into the file",
        )


def _choose_store(values: dict[str, object], given: Mapping[str, str], warnings: list[str]) -> None:
    ensemble = given.get("zookeeper.connect", "").strip()
    if not ensemble:
        return
    if _STORE not in given:
        values["odradek_metadata_store"] = "zookeeper"
    elif values["odradek_metadata_store"] != "zookeeper":
        store = values["odradek_metadata_store"]
        warnings.append(f"zookeeper.connect={ensemble} is ignored: {_STORE}={store} wins")


def _choose_id(values: dict[str, object], given: Mapping[str, str]) -> None:
    on_zookeeper = values["odradek_metadata_store"] == "zookeeper"
    if "node.id" not in given:
        if on_zookeeper and values["broker_id_generation_enable"]:
            values["node_id"] = GENERATED_ID
        return
    if values["node_id"] != GENERATED_ID:
        return
    if not values["broker_id_generation_enable"]:
        raise InvalidSetting(
            "node.id", GENERATED_ID, "broker.id.generation.enable is false; choose a number"
        )
    if not on_zookeeper:
        raise InvalidSetting(
            "node.id", GENERATED_ID, "only brokers on ZooKeeper get a generated id; choose a number"
        )


def _leave_out_controller_listeners(values: dict[str, object], given: Mapping[str, str]) -> None:
    names = {name.upper() for name in parse_list(given.get("controller.listener.names", ""))}
    if not names:
        return
    for attribute in ("listeners", "advertised_listeners"):
        listeners = values[attribute]
        if listeners is None:
            continue
        assert isinstance(listeners, tuple)
        client_listeners: tuple[Listener, ...] = tuple(
            listener for listener in listeners if listener.name not in names
        )
        if not client_listeners and attribute == "listeners":
            raise InvalidSetting(
                "controller.listener.names",
                given["controller.listener.names"],
                "no listener is left for clients; there are no separate controllers here",
            )
        values[attribute] = client_listeners or None


def _refuse_quorum(values: dict[str, object], given: Mapping[str, str]) -> None:
    roles = set(parse_list(given.get("process.roles", "")))
    if roles and "broker" not in roles:
        raise InvalidSetting(
            "process.roles",
            given["process.roles"],
            "there are no separate controllers here; any broker may be the controller",
        )
    if _STORE in given or values["odradek_metadata_store"] != "sqlite":
        return
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        members = parse_list(given.get(name, ""))
        if len(members) > 1 or (members and roles == {"broker"}):
            raise InvalidSetting(
                name,
                given[name],
                "there is no KRaft quorum, and this broker would be a cluster of its own; name"
                f" a ZooKeeper ensemble in zookeeper.connect, or set {_STORE}=sqlite to let it be"
                " one",
            )
