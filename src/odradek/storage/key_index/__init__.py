"""The key index: where the newest record of a key is, without reading the log.

- `key_indexes`: the indexes of a broker: for which logs, when they are made and kept current
- `index`: the index of one log: its runs, the holes between them, a look-up through both
- `run`: the keys of a stretch of log, in one file that never changes
- `run_builder`: the jobs that make runs, from the log or from older runs, beside the event loop
- `search`: the log itself: is the key at this offset, and where is it if no run tells
"""
