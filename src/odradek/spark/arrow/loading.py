"""Loads the compiled loops before they are needed.

Numba keeps what it has compiled on disk, and reads it at each function's first call in a process:
a quarter of a second in all. A process that forks others does it once for all of them.
"""

import pyarrow as pa

from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.decoding import ArrowDecoder
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns


def load_loops() -> None:
    """Packs and unpacks records: all others have the same types (`kernels.sealed`)."""
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
