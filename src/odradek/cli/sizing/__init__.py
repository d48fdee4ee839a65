"""The command that says what a cluster needs for a load."""
