"""Compaction: of each key the newest record stays.

The broker's side, on the event loop:

- `cleaner`: which log is next, one pass over it, and what becomes of a pass that fails
- `cleanable`: what of a log can be compacted, and whether it is due
- `segment_replacement`: puts a finished segment in the place of those it was made from
- `metrics`: figures, by the names that Kafka's cleaner gives them

Between the two: `job`, what the broker asks and what the worker answers.

The worker's side, in a process of its own that touches files only:

- `rewriting`: the pass itself: the newest offsets first, then what survives
- `key_map`, `vector_key_map`: the newest offset of each key; the same on arrays, with numpy
- `cleaned_transactions`: which transactional batches and markers may go
- `segment_reader`, `cleaned_segment`: a segment read from end to end; the new one

A broker that compacts nothing imports none of the worker's side, so nothing is imported here.
"""
