"""The command `odradek`: one module per tool, imported only when that tool is typed."""
