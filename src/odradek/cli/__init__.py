"""The command `odradek`: one module for each tool, imported only when that tool is used."""
