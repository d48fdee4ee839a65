"""Quotas of clients: whose limits apply, how use is measured, and how long a client must wait.

Nothing here reads a clock or a socket: callers pass the time in and obey the waiting time that
comes out. `broker.limits` asks it for every request while any quota is set.
"""
