"""Transactions: one coordinator for each transactional id, on `__transaction_state`.

`transaction` is one transaction and its states, `machine` decides about all of a partition,
`records` is how they are written down.
"""
