from odradek.spark.archive.entries import DataFile


def data_file(
    partition: int,
    first: int,
    last: int,
    *,
    size_bytes: int = 100,
    hour: str = "07",
    rows: int | None = None,
) -> DataFile:
    return DataFile(
        topic="t",
        partition=partition,
        date="2026-11-15",
        hour=hour,
        first_offset=first,
        last_offset=last,
        rows=last - first + 1 if rows is None else rows,
        size_bytes=size_bytes,
        first_ms=0,
        last_ms=0,
        name=f"{partition}-{first}-{last}",
    )
