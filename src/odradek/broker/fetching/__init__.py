"""Fetch requests of consumers and of other brokers: sessions, reads, waiting."""
