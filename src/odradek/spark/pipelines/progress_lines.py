"""The output of a running pipeline: a line for each batch, and metrics for Prometheus."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.spark.progress import total_lag
from odradek.wording import counted

_METRICS = (
    ("records_total", "counter", "Records read since the start"),
    ("batches_total", "counter", "Micro-batches done since the start"),
    ("restarts_total", "counter", "Times the query was started again"),
    ("lag_records", "gauge", "Records that wait in the topics"),
    ("batch_duration_seconds", "gauge", "What the last micro-batch took"),
    ("last_batch_timestamp_seconds", "gauge", "When the last micro-batch was done"),
)


class BatchDone(NamedTuple):
    """One micro-batch of one query."""

    batch_id: int
    records: int
    duration_s: float
    lag: int


def batch_done(progress: Any) -> BatchDone:
    """Extracts the figures of a batch from `query.lastProgress`."""
    durations: Mapping[str, int] = progress["durationMs"]
    return BatchDone(
        int(progress["batchId"]),
        int(progress["numInputRows"]),
        durations.get("triggerExecution", 0) / 1000,
        total_lag(progress),
    )


def line(query: str, done: BatchDone) -> str:
    """`clicks  batch 12  1,200 records in 0.40 s (3,000/s), 5 wait`"""
    rate = f" ({done.records / done.duration_s:,.0f}/s)" if done.duration_s else ""
    waiting = f", {done.lag:,} wait" if done.lag else ""
    return (
        f"{query}  batch {done.batch_id}  {counted(done.records, 'record', spec=',')} in"
        f" {done.duration_s:.2f} s{rate}{waiting}"
    )


def prometheus(pipeline: str, queries: Mapping[str, Mapping[str, float]]) -> str:
    """Writes the metrics of all queries in Prometheus' text format."""
    lines = []
    for name, kind, text in _METRICS:
        full = f"odradek_pipeline_{name}"
        lines += [f"# HELP {full} {text}.", f"# TYPE {full} {kind}"]
        for query, figures in sorted(queries.items()):
            if name in figures:
                labels = f'pipeline="{pipeline}",query="{query}"'
                lines.append(f"{full}{{{labels}}} {figures[name]:.10g}")
    return "\n".join(lines) + "\n"
