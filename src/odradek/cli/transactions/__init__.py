"""The command about transactions."""
