"""The command that checks this machine and the connection to the brokers."""
