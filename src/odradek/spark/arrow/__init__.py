"""Records as Arrow columns, for programs such as Spark that move millions of them.

`decoding` turns fetched batches into Arrow columns without making a Python object for each record,
and `encoding` does the reverse. Both call the loops in `kernels`, which numba compiles once on each
machine. `ranges` reads a range of offsets, `producer` sends whole batches. Needs pyarrow and numba:
the extra `spark`.
"""
