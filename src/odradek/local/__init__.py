"""Runs brokers and clusters on this machine, for `odradek up`, `broker` and `local`."""
