"""Balance: moves replicas and leaders so that the brokers of a cluster are loaded evenly.

    reading      asks the brokers, and returns a `ClusterModel`: a plain value
    planner      changes a `Placement` of the model step by step, goal after goal
    plan         the result: moves, elections, what they cost, before and after
    report       the same for people and for programs
    execution    carries a plan out in waves with a throttle, by a journal on disk

`odradek balance` and its HTTP service are the callers. Only `reading`, `throttles` and `execution`
talk to brokers, so planning can be tested with values alone.
"""
