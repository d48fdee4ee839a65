"""State machines on a replicated log, and watermarks.

`machine` defines what a machine is, `runner` runs a machine on a log, `pending_replies` holds
replies until their records are committed, `log_lines` writes the log lines of outcomes. `watermark`
is an offset that only rises and can be awaited.
"""
