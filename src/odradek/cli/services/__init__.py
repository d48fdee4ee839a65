"""The commands that start HTTP services from their properties files."""
