"""SASL: the mechanisms by which clients log in at brokers, each side in a package of its own."""
