"""Data of an earlier version of Odradek, read by this one, and back.

`tests/data/upgrade` has data directories that an earlier version wrote. `test_upgrade.py` starts
this version on them. `python -m tests.upgrade COMMIT` goes both ways with the code of a commit:
that one writes, this one reads and writes more, and that one reads all of it.
"""
