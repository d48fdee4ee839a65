"""What a recipe shows while its queries run. No Spark: the query is a list of its progress."""

from typing import Any

from odradek.recipes.environment import RecipeEnvironment


class Query:
    """A query that ends when all its micro-batches are done, one a second."""

    name = "clicks_by_minute"

    def __init__(self, records: list[int]) -> None:
        self._records = records
        self._done = 0

    def awaitTermination(self, timeout: int) -> bool:  # noqa: N802 - Spark names it
        self._done += timeout
        return self._done >= len(self._records)

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark names it
        return [
            {
                "batchId": batch,
                "numInputRows": records,
                "durationMs": {"triggerExecution": 500},
                "sources": [],
            }
            for batch, records in enumerate(self._records[: self._done])
        ]


def test_each_batch_with_records_is_shown_once() -> None:
    lines: list[str] = []
    environment = RecipeEnvironment(None, None, "", lines.append)  # type: ignore[arg-type]
    environment.finish(Query([10_000, 0, 20_000]))
    assert lines == [
        "clicks_by_minute  batch 0  10,000 records in 0.50 s (20,000/s)",
        "clicks_by_minute  batch 2  20,000 records in 0.50 s (40,000/s)",
    ]
