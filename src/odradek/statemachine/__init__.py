"""State machines on a replicated log, and the offsets they wait for.

`machine` says what a machine is, `runner` runs one on a log, `watermark` is what waits.
"""
