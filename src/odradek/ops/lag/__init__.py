"""Lag: says of each consumer group and Spark query whether it keeps up, without thresholds.

    evaluation      the rules of Burrow as pure functions: a status for a window of commits
    history         windows of all groups and partitions, filled by samples
    sampling        asks the brokers for what groups have committed and where logs end
    queries         reads from checkpoints where Spark queries are
    report          statuses for people and for programs
    metrics         the same as Burrow's series for Prometheus
    api             the same over HTTP, as Burrow's API v3
    notifications   says when the status of a group has changed: to a webhook and by e-mail
    service         samples again and again, serves `api`, and sends notifications

`odradek lag` and `odradek top` are the callers. Only `sampling` talks to brokers, so that
evaluation can be tested with values alone. `api` and `service` need the extra `web`.
"""
