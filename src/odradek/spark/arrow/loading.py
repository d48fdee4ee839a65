"""Loads the compiled functions (`kernels`) before they are needed.

Numba caches compiled functions on disk and reads them at the first call in each process, which
takes a quarter of a second in all. Spark's worker daemon (`odradek.spark.worker_daemon`) calls
`load_kernels` once before it forks its workers. The first time on a machine, that compiles them.
"""

import os
from pathlib import Path

import pyarrow as pa

from odradek.protocol.types import TopicPartition
from odradek.spark.arrow import kernels
from odradek.spark.arrow.decoding import ArrowDecoder
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns


def are_kernels_compiled() -> bool:
    """Returns whether numba's cache has the functions of this version of the file. If not,
    `load_kernels` takes seconds."""
    source = Path(kernels.__file__)
    cache = Path(kernels.read_varint.stats.cache_path)  # type: ignore[attr-defined] # numba's own
    index = cache.glob(f"{source.stem}.*.nbi")
    newest = max((os.path.getmtime(file) for file in index), default=0.0)
    return newest >= os.path.getmtime(source)


def load_kernels() -> None:
    """Encodes and decodes a few records, which calls and so loads all compiled functions. Later
    calls have the same argument types (`kernels.read_only`), so nothing is compiled again."""
    topic_partition = TopicPartition("loading", 0)
    rows = pa.record_batch(
        {
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([b"v", b"w"], pa.binary()),
        }
    )
    columns = record_columns(rows, 0)
    columns.fingerprint()
    for encoded in ArrowEncoder(topic_partition.topic, lambda _: 1).encode(columns):
        decoder = ArrowDecoder(topic_partition)
        fetched = memoryview(encoded.batch.build(0)).toreadonly()
        assert sum(batch.num_rows for batch in decoder.decode(fetched, 0, 2)) == 2
