"""The key index: finds the newest record of a key without reading the log.

- `key_indexes`: all key indexes of a broker: for which logs they exist, and when they are extended
- `index`: the key index of one log: its runs, the gaps between them, a look-up through both
- `run`: the keys of a range of offsets, in one immutable file
- `run_builder`: makes runs from the log or from older runs, in a worker process
- `search`: reads the log: checks the key at an offset, and scans where there is no run
"""
