"""The producer, from a record to its acknowledgement; idempotence and transactions with it."""
