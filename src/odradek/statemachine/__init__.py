"""State machines and the offsets they wait for.

For now the watermark; groups and transactions bring the machine and its runner.
"""
