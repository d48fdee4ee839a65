"""Compaction: the newest record of each key stays, older ones are removed.

The broker's side, on the event loop:

- `cleaner`: chooses the next log, runs one pass over it, and handles a pass that fails
- `cleanable`: which part of a log can be compacted, and whether it should be compacted now
- `segment_replacement`: replaces segments by the compacted one that was made from them
- `metrics`: the metrics of Kafka's log cleaner

Between the two: `job`, the messages between broker and worker.

The worker's side, in a process of its own that touches files only:

- `rewriting`: the pass itself: first finds the newest offsets, then copies the records that stay
- `key_map`, `vector_key_map`: the newest offset of each key; the same with numpy arrays
- `cleaned_transactions`: which transactional batches and markers may be removed
- `segment_reader`, `cleaned_segment`: reads a segment from its start to its end; writes the new one

A broker that compacts nothing imports none of the worker's side, so nothing is imported here.
"""
