"""The command that computes what a cluster needs for a load."""
