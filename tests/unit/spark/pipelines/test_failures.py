"""What a person is told of a failure that came through Java and Python."""

import pytest

from odradek.spark.pipelines.running import first_line, is_permanent

_LONG = """[STREAM_FAILED] Query terminated with exception: Job aborted
 at org.apache.spark.Something(Some.scala:1)
Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
odradek.spark.options.BadOption: no topic: set option('topic', ...)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_the_last_line_of_a_python_traceback_is_told() -> None:
    said = first_line(_LONG)
    assert said == "odradek.spark.options.BadOption: no topic: set option('topic', ...)"


def test_without_one_the_first_line_is() -> None:
    assert first_line("Job aborted\n at org.apache.X: y") == "Job aborted"
    assert first_line(ValueError()) == "ValueError"


_DESCRIBED = """
=== Streaming Query ===
Identifier: clicks [id = 0a41ce26, runId = f796a644]
Logical Plan: DataLost
"""


def test_what_spark_says_about_the_query_is_not_taken_for_the_reason() -> None:
    assert first_line(_LONG + _DESCRIBED) == first_line(_LONG)
    assert not is_permanent("RequestTimedOut: nobody answers" + _DESCRIBED)


@pytest.mark.parametrize(
    "said",
    [
        "odradek.spark.arrow.ranges.DataLost: the log now begins at 7",
        "odradek.spark.source.DataMissing: t [0] is gone",
        "odradek.spark.markers.WriteRefused: the checkpoint is older than the topic",
        "odradek.spark.markers.ReplayDiffers: batch 3 has been written",
    ],
)
def test_a_query_that_would_fail_again_is_not_started_again(said: str) -> None:
    assert is_permanent(said + _DESCRIBED)
