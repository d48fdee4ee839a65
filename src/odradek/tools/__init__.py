"""What every tool shares: one line for each failure, output, a session with the brokers."""
