"""The transaction coordinator: a state machine on each partition of `__transaction_state`.

| module | what it is |
|---|---|
| `transaction` | a transactional id, its states and the transition table |
| `commands` | the commands of the state machine and their replies |
| `machine` | decides about InitProducerId, AddPartitionsToTxn and EndTxn |
| `records` | the records of transactions, in Kafka's format |
| `refusal_lines` | the log line about a refused request |
| `markers` | writes the markers of prepared transactions |
| `local_markers`, `remote_markers` | markers in partitions of this broker, and of others |
| `verification` | adds partitions to transactions before records are written |
| `remote_coordinator` | the same, if another broker is the coordinator |
| `request_batcher` | one request for all questions that wait for a broker |
"""
