"""The audit log: who logged in, who was denied or allowed what, and who changed the cluster.

`log` has the buffer and the task that empties it, `events` the form of an event, `changes` knows
which APIs change the cluster and what they changed, `sinks` writes to a file or to a topic. Without
`odradek.audit.sink` none of this is imported.
"""
