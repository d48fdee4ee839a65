"""What a broker reports about itself: metrics, its log, and stalls of its event loop.

Import from the modules: `metrics`, `logs`, `stalls`.
"""
