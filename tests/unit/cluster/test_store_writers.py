"""What the sources say of the places that write to the store."""

import ast
from pathlib import Path

import odradek

CALLERS = {
    "cli.cluster.zookeeper_shell_actions:_change",
    "cluster.acls:AclStore._change",
    "cluster.adoption:_adopt_topic",
    "cluster.broker_ids:next_broker_id",
    "cluster.cluster_secret:ClusterSecret.get",
    "cluster.configs:Configs._change",
    "cluster.delegation_tokens:DelegationTokens._change",
    "cluster.delegation_tokens:DelegationTokens._remove",
    "cluster.delegation_tokens:DelegationTokens.create",
    "cluster.quotas:QuotaStore.alter",
    "cluster.controller:Controller._become_controller",
    "cluster.controller:Controller._withdraw",
    "cluster.membership:Membership._bump_epoch",
    "cluster.membership:Membership._register",
    "cluster.producer_ids:ProducerIds._take_block",
    "cluster.producer_ids:start_above",
    "cluster.reassignment:write_steps",
    "cluster.roles:RoleStore.change",
    "cluster.state_changes:change_states",
    "cluster.topics:Topics._add_partitions",
    "cluster.topics:Topics._delete",
    "cluster.topics:Topics._is_taken",
    "cluster.topics:Topics._write_new",
    "local.first_users:_write",
    "replication.isr_changes:IsrChanges._write",
}

_HELPERS = {"attempt", "change_node", "write"}


# What the sources say


def _calls() -> dict[str, set[str]]:
    """The functions awaited in each function of rooms that may import `odradek.metadata`."""
    root = Path(odradek.__file__).parent
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        if not module.startswith(("metadata", "client")):
            _collect(ast.parse(path.read_text()), f"{module}:", found)
    return found


def _collect(node: ast.AST, where: str, found: dict[str, set[str]]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = where
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = where + ("" if where.endswith(":") else ".") + child.name
        if isinstance(child, ast.Await) and isinstance(child.value, ast.Call):
            found.setdefault(where, set()).add(ast.unparse(child.value.func))
        _collect(child, inner, found)


def test_every_place_that_changes_nodes_is_known() -> None:
    places = {where for where, called in _calls().items() if called & _HELPERS}
    assert places == CALLERS


def test_nobody_goes_around_the_helper() -> None:
    around = {
        where
        for where, called in _calls().items()
        if any(name.endswith((".multi", "images.write", "cache.write")) for name in called)
    }
    assert around == set()
