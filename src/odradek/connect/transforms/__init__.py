"""The single-message transforms and predicates of Kafka Connect, and two of Debezium's for change
events, one module for each.

    transform          what every transform and predicate does, and the side that it works on
    chain              the transforms of a connector, with their predicates
    java_dates         times as text, by the patterns of Java
    change_events      the parts of a change event

A transform is pure: it gets a record and returns another one, or None to drop it. It raises
`DataError` for a record that it cannot transform.
"""
