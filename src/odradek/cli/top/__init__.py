"""`odradek top`: a live page of the cluster in the terminal.

top          the flags
panels       which tables there are, and their columns
tables       a table as lines of a given width: which columns fit, sorting, filtering
page         what is shown now, and what a key changes
styled       lines with styles, and as what they are written to a terminal
screen       the terminal: its size, its modes, what is on it
live         samples, keys and resizing, until the user quits
printing     `--once` and `--json`
"""
