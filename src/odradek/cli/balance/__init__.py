"""`odradek balance`: an even load of all brokers."""
