"""Groups of the consumer protocol (KIP-848), in which the coordinator assigns partitions.

| module | what it is |
|---|---|
| `member` | a member: its subscription, epochs and assignment |
| `reconciliation` | what a member must revoke and may get, and its transition table |
| `group` | the state of a group, its invariants, and how records change it |
| `coordinator` | decides about heartbeats and plugs into `groups.machine` |
| `heartbeats` | checks the fields of heartbeats |
| `decision` | one decision, worked out on a draft of the group |
| `assignors` | compute target assignments |
| `subscriptions` | the topics of a group in the cluster's image |
| `topic_patterns`, `topic_pattern_syntax` | regular expressions over topic names |
| `classic_members`, `migration` | both protocols in one group |
| `records` | the records of consumer groups, in Kafka's format |
"""
