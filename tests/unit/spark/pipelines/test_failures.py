"""What a person is told of a failure that came through Java and Python."""

from odradek.spark.pipelines.running import first_line

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
