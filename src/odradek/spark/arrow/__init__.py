"""Records as Arrow columns: for whoever moves millions of them, such as Spark.

`decoding` turns fetched batches into Arrow without a Python object a record, `encoding` does the
reverse; both call the loops in `kernels`, which numba compiles once a machine. `ranges` reads a
range of offsets, `producer` sends whole batches. Needs pyarrow and numba: `pip install
'odradek[spark]'`.
"""
