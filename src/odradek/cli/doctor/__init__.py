"""The command that checks this machine and the way to the brokers."""
