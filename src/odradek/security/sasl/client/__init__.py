"""The client's side of each SASL mechanism, without any I/O; `login` chooses one by settings."""
