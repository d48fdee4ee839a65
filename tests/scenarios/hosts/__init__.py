"""Brokers, ZooKeeper servers and clients on hosts of their own, as far as one machine can.

A host is a network namespace. Hosts are connected by a router in user space, which loses, delays,
duplicates and reorders packets as it is told. `python -m tests.scenarios.hosts` runs it.
"""
