"""What a broker tells about itself: metrics, its log, and stalls of its event loop.

Import from the modules: `metrics`, `logs`, `stalls`.
"""
