"""The publication and the replication slot of a connector: making, finding and dropping them."""

import logging
import time
from typing import Final, NamedTuple

from odradek.connect.connectors.postgres.catalog import Catalog
from odradek.connect.connectors.postgres.database import Database, identifier
from odradek.connect.connectors.postgres.lsn import parse_lsn
from odradek.connect.connectors.postgres.settings import (
    ALL_TABLES,
    DISABLED,
    FILTERED,
    PostgresSettings,
)
from odradek.connect.errors import DataError

_log = logging.getLogger("odradek.connect")

_SLOT: Final = """SELECT plugin, database, confirmed_flush_lsn, wal_status, active
FROM pg_replication_slots WHERE slot_name = $1"""
_PUBLISHED: Final = """SELECT n.nspname, c.relname FROM pg_publication p
JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1"""
_MAY_REPLICATE: Final = """SELECT rolsuper OR rolreplication
  OR EXISTS (SELECT FROM pg_roles g WHERE g.rolname IN ('rds_replication', 'azure_pg_admin')
             AND pg_has_role(current_user, g.oid, 'member'))
FROM pg_roles WHERE rolname = current_user"""

_DROP_S: Final = 2.0
_RETRY_S: Final = 0.02

Name = tuple[str, str]


class Slot(NamedTuple):
    """`stored_lsn` is where the server would begin to send."""

    stored_lsn: int
    is_active: bool


def find_slot(database: Database, name: str) -> Slot | None:
    """Raises `DataError` if the slot cannot serve."""
    rows = database.query(_SLOT, name).rows
    if not rows:
        return None
    plugin, of_database, lsn, status, active = rows[0]
    if plugin != "pgoutput":
        raise DataError(f"slot {name} has the plug-in {plugin}, and pgoutput is needed")
    if of_database != database.address.database:
        raise DataError(f"slot {name} belongs to database {of_database}; choose another slot.name")
    if status == "lost" or lsn is None:
        raise DataError(
            f"the server has removed the log that slot {name} needs (max_slot_wal_keep_size)."
            f" Changes are lost: run SELECT pg_drop_replication_slot('{name}'), and start the"
            " connector with snapshot.mode=when_needed or after its offsets were reset"
        )
    return Slot(parse_lsn(lsn), active == "t")


def make_slot(database: Database, name: str) -> Slot:
    """Makes a slot that begins now."""
    lsn = database.value("SELECT lsn FROM pg_create_logical_replication_slot($1, 'pgoutput')", name)
    assert lsn is not None
    _log.info("made replication slot %s at %s", name, lsn)
    return Slot(parse_lsn(lsn), False)


def drop_slot(database: Database, name: str) -> None:
    """Drops a slot as soon as the server has seen that nobody reads it any more."""
    deadline = time.monotonic() + _DROP_S
    while time.monotonic() < deadline:
        database.query(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_name = $1 AND NOT active",
            name,
        )
        if find_slot(database, name) is None:
            return
        time.sleep(_RETRY_S)
    _log.warning("slot %s is in use, and not dropped", name)


def captured_tables(catalog: Catalog, settings: PostgresSettings) -> list[Name]:
    """Returns schema and name of the tables, in the order of the include list."""
    found = {f"{schema}.{table}": (schema, table) for schema, table in catalog.tables()
             if settings.schemas.selects(schema)}  # fmt: skip
    return [found[name] for name in settings.tables.in_order(found)]


def prepare_publication(
    database: Database, settings: PostgresSettings, captured: list[Name]
) -> None:
    """Makes the publication if there is none, and lets a filtered one have the captured tables.
    Raises `DataError`."""
    name, mode = settings.publication_name, settings.publication_autocreate_mode
    exists = database.value("SELECT 1 FROM pg_publication WHERE pubname = $1", name) is not None
    if mode == DISABLED and not exists:
        raise DataError(
            f"there is no publication {name}, and publication.autocreate.mode is disabled: run"
            f" CREATE PUBLICATION {identifier(name)} FOR TABLE ..."
        )
    signals = settings.signal_table
    wanted = [*captured, *([signals] if signals and signals not in captured else [])]
    tables = ", ".join(identifier(*table) for table in wanted)
    if not exists:
        if mode == FILTERED and not wanted:
            raise DataError(
                "the lists of schemas and tables select none, so there is nothing to publish:"
                " check table.include.list, which has patterns of schema.table"
            )
        what = {ALL_TABLES: "FOR ALL TABLES", FILTERED: f"FOR TABLE {tables}"}.get(mode, "")
        root = " WITH (publish_via_partition_root = true)"
        database.run(
            f"CREATE PUBLICATION {identifier(name)} {what}"
            + (root if settings.publish_via_partition_root else "")
        )
        _log.info("made publication %s (%s)", name, mode)
    elif mode == FILTERED:
        published = {(str(row[0]), str(row[1])) for row in database.query(_PUBLISHED, name).rows}
        if wanted and published != set(wanted):
            database.run(f"ALTER PUBLICATION {identifier(name)} SET TABLE {tables}")


def set_replica_identities(
    database: Database, settings: PostgresSettings, captured: list[Name]
) -> None:
    for tables, kind, index in settings.replica_identities():
        for schema, table in captured:
            if tables.selects(f"{schema}.{table}"):
                identity = f"USING INDEX {identifier(index)}" if index else kind
                database.run(f"ALTER TABLE {identifier(schema, table)} REPLICA IDENTITY {identity}")


def wrong_server(database: Database) -> str | None:
    """Returns why this server cannot be captured, and what to type."""
    if database.version < 100_000:
        return "PostgreSQL 10 or later is needed"
    level = database.value("SHOW wal_level")
    if level != "logical":
        return (
            f"the server has wal_level = {level}: run ALTER SYSTEM SET wal_level = logical, and"
            " restart it"
        )
    if database.value(_MAY_REPLICATE) != "t":
        user = database.address.user
        return f"{user} may not replicate: run ALTER ROLE {identifier(user)} REPLICATION"
    return None
