"""The pytest plugin: loaded in every run, so it imports nothing until a fixture is used."""
