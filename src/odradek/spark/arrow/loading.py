"""Loads the compiled loops before they are needed.

Numba caches compiled functions on disk and reads them at the first call in each process, which
takes a quarter of a second in all. A process that forks others calls this once for all of them.
"""

import pyarrow as pa

from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.decoding import ArrowDecoder
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns


def load_loops() -> None:
    """Encodes and decodes a few records, which loads all loops. Later calls have the same argument
    types (`kernels.read_only`), so nothing is compiled again."""
    place = TopicPartition("loading", 0)
    rows = pa.record_batch(
        {
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([b"v", b"w"], pa.binary()),
        }
    )
    columns = record_columns(rows, 0)
    columns.fingerprint()
    for packed in ArrowEncoder(place.topic, lambda _: 1).pack(columns):
        decoder = ArrowDecoder(place)
        fetched = memoryview(packed.records.build(0)).toreadonly()
        assert sum(batch.num_rows for batch in decoder.decode(fetched, 0, 2)) == 2
