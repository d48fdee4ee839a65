"""The group coordinator: a state machine on each partition of `__consumer_offsets`.

| module | what it is |
|---|---|
| `commands` | the commands of the state machine and their replies |
| `machine` | the state machine of a partition's groups: offsets, listing, deletion, retention |
| `group` | what every type of group offers, and how a type plugs in |
| `classic`, `classic_member` | a group of the classic protocol: theory, transition table, state |
| `classic_membership` | decides about JoinGroup, SyncGroup, Heartbeat and LeaveGroup |
| `classic_rebalance` | the two phases of a rebalance |
| `offsets` | committed offsets, and those pending in transactions |
| `records` | the records of offsets and classic groups, in Kafka's format |
| `consumer` | groups of the consumer protocol (KIP-848) |
"""
