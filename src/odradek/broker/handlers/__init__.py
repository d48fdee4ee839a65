"""The table of APIs this broker serves: one file each, imported when first asked for.

It is also what ApiVersions advertises, so a version stands here only when it really works.
Every handler is `handle(services, context, request)` and returns the response, or an
awaitable of it, or None where the client wants no reply.
"""

from typing import Final, NamedTuple

from odradek.protocol.apis import ApiKey


class Served(NamedTuple):
    module: str
    lowest: int
    highest: int


TABLE: Final[dict[int, Served]] = {
    ApiKey.PRODUCE: Served("produce", 3, 13),
    ApiKey.FETCH: Served("fetch", 4, 18),
    ApiKey.LIST_OFFSETS: Served("list_offsets", 1, 11),
    ApiKey.METADATA: Served("metadata", 0, 13),
    ApiKey.FIND_COORDINATOR: Served("find_coordinator", 0, 6),
    ApiKey.OFFSET_COMMIT: Served("offset_commit", 2, 10),
    ApiKey.OFFSET_FETCH: Served("offset_fetch", 1, 10),
    ApiKey.JOIN_GROUP: Served("join_group", 0, 9),
    ApiKey.HEARTBEAT: Served("heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: Served("leave_group", 0, 5),
    ApiKey.SYNC_GROUP: Served("sync_group", 0, 5),
    ApiKey.DESCRIBE_GROUPS: Served("describe_groups", 0, 6),
    ApiKey.LIST_GROUPS: Served("list_groups", 0, 5),
    ApiKey.API_VERSIONS: Served("api_versions", 0, 4),
    ApiKey.CREATE_TOPICS: Served("create_topics", 2, 7),
    ApiKey.DELETE_TOPICS: Served("delete_topics", 1, 6),
    ApiKey.DELETE_RECORDS: Served("delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: Served("init_producer_id", 0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: Served("add_partitions_to_txn", 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Served("add_offsets_to_txn", 0, 4),
    ApiKey.END_TXN: Served("end_txn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: Served("write_txn_markers", 1, 2),
    ApiKey.TXN_OFFSET_COMMIT: Served("txn_offset_commit", 0, 5),
    ApiKey.DESCRIBE_PRODUCERS: Served("describe_producers", 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Served("describe_transactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: Served("list_transactions", 0, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served("offset_for_leader_epoch", 2, 4),
    ApiKey.DESCRIBE_ACLS: Served("describe_acls", 1, 3),
    ApiKey.CREATE_ACLS: Served("create_acls", 1, 3),
    ApiKey.DELETE_ACLS: Served("delete_acls", 1, 3),
    ApiKey.DESCRIBE_CONFIGS: Served("describe_configs", 1, 4),
    ApiKey.ALTER_CONFIGS: Served("alter_configs", 0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Served("alter_replica_log_dirs", 1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Served("describe_log_dirs", 1, 5),
    ApiKey.CREATE_PARTITIONS: Served("create_partitions", 0, 3),
    ApiKey.DELETE_GROUPS: Served("delete_groups", 0, 2),
    ApiKey.OFFSET_DELETE: Served("offset_delete", 0, 0),
    ApiKey.ELECT_LEADERS: Served("elect_leaders", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served("incremental_alter_configs", 0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Served("alter_partition_reassignments", 0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Served("list_partition_reassignments", 0, 0),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Served("describe_user_scram_credentials", 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Served("alter_user_scram_credentials", 0, 0),
    ApiKey.DESCRIBE_CLUSTER: Served("describe_cluster", 0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Served("consumer_group_heartbeat", 0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Served("consumer_group_describe", 0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: Served("list_config_resources", 0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served("describe_topic_partitions", 0, 0),
    ApiKey.LOOK_UP: Served("look_up", 0, 0),
}
