"""The cluster's decisions: where replicas go, and what topics there are.

One broker makes them alone today; the elected controller of several makes the same ones.
"""
