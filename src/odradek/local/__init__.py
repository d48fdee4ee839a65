"""Brokers and clusters on this machine: what `odradek up`, `broker` and `local` run."""
