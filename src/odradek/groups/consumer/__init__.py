"""Groups of the new consumer protocol (KIP-848), where the coordinator assigns.

`member` is the theory: how one member moves towards its target, and its transition table.
`group` is the state of one group and how records change it; `records` is how it stands in the
log. `assignors` make the targets, `topic_patterns` matches topics against regular expressions.
`decision` works a decision out on a draft; `coordinator` decides, and is what plugs into
`groups.machine`; `classic_members` and `migration` let both protocols meet in one group.
"""
