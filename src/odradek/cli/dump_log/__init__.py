"""The command that prints and verifies the files of a log directory."""
