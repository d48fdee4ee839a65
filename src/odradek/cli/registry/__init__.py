"""The command that starts the schema registry."""
