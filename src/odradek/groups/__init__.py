"""Groups of consumers and their offsets: a state machine on `__consumer_offsets`.

`machine` is the machine over all groups of one partition; `classic` says what a group of the
classic protocol is and how it moves, `membership` and `rebalance` decide for it; `offsets` is
what groups have committed; `records` is what stands in the log, in Kafka's own format;
`commands` is what may be asked, and what is answered. `group` is what any kind of group has
to offer, so that groups of other kinds plug in.
"""
