"""What a person is told of a failure that came through Java and Python."""

import os

import pytest

from odradek.client.errors import NoBrokerAvailable
from odradek.spark.failures import cause, is_explained, is_permanent, plain_errors
from odradek.spark.option_names import BadOption

_DESCRIPTION = """
=== Streaming Query ===
Identifier: clicks [id = 0a41ce26, runId = f796a644]
Logical Plan: DataLost
"""
_LONG = """[STREAM_FAILED] Query terminated with exception: Job aborted
 at org.apache.spark.Something(Some.scala:1)
Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
odradek.spark.options.BadOption: no topic: set option('topic', ...)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
_PLAIN = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:"
    " [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform"
    " prepareForTriggerAvailableNow: odradek.spark.options.BadOption: topic miss does not exist\n"
    " SQLSTATE: 38000 SQLSTATE: XXKST"
)
_OF_A_FUNCTION = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/home/me/steps.py", line 34, in bad
    return str(1/0)
               ~^~
ZeroDivisionError: division by zero
 SQLSTATE: 38000"""
_CRASH = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:"
    " Lost task 0.0 in stage 3.0 (TID 2) (a executor driver): org.apache.spark.SparkException:"
    " Python worker exited unexpectedly (crashed). Consider setting 'spark.x'\n"
    "\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1136)"
)
_JAVA = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:"
    " Lost task 0.0 in stage 3.0 (TID 2) (10.0.0.7 executor 3): java.io.IOException: No space left"
    " on device\n\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"
)
_REFUSED = (
    "org.apache.spark.sql.AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed:"
    " odradek.client.errors.NoBrokerAvailable: cannot connect to x:1: connection refused"
)
_NO_SOURCE = (
    "An error occurred while calling o120.load.\n: org.apache.spark.SparkClassNotFoundException:"
    " [DATA_SOURCE_NOT_FOUND] Failed to find the data source: odradk. SQLSTATE: 42K02\n\tat org.x"
)
_STACK = (
    "\n\tat org.apache.hadoop.fs.FilterFileSystem.mkdirs(FilterFileSystem.java:336)"
    "\n\tat org.apache.x.checkpointing.FileSystemBasedCheckpointFileManager.create(C.scala)"
)
_CHECKPOINT_FILE = (
    "An error occurred while calling o65.start.\n: org.apache.hadoop.fs.FileAlreadyExistsException:"
    f" Destination exists and is not a directory: /home/me/a file{_STACK}"
)
_CHECKPOINT_BELOW_FILE = (
    "An error occurred while calling o75.start.\n: org.apache.hadoop.fs.ParentNotDirectory:"
    f" Parent path is not a directory: file:/home/me/file{_STACK}"
)
_CHECKPOINT_REFUSED = (
    "An error occurred while calling o85.start.\n: java.io.IOException: Mkdirs failed to create"
    f" file:/proc/x (exists=false, cwd=file:/home/me){_STACK}"
)
_NO_KAFKA = (
    "[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka. Please deploy the"
    " application as per the deployment section of Structured Streaming + Kafka Integration Guide."
)
_UNRESOLVED = "[UNRESOLVED] `no` cannot be resolved. SQLSTATE: 42703; line 1 pos 0;\n'Project"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (_LONG, "no topic: set option('topic', ...)"),
        (_PLAIN, "topic miss does not exist"),
        (_OF_A_FUNCTION, "ZeroDivisionError: division by zero (steps.py, line 34)"),
        (_JAVA, "No space left on device"),
        ("Job aborted\n at org.apache.X: y", "Job aborted"),
        (_UNRESOLVED, "`no` cannot be resolved."),
        (_NO_SOURCE.replace("odradk", "delta"), "Failed to find the data source: delta."),
    ],
)
def test_one_line_states_the_reason_whatever_is_around_it(said: str, line: str) -> None:
    assert cause(said) == line
    assert cause(said + _DESCRIPTION) == line


def test_a_failure_without_words_is_named() -> None:
    assert cause(ValueError()) == "ValueError"


def test_the_reason_may_be_in_a_cause_of_the_exception() -> None:
    error = RuntimeError("[WRITING_JOB_ABORTED] Writing job aborted SQLSTATE: 40000")
    error.__cause__ = RuntimeError(_LONG)
    assert cause(error) == "no topic: set option('topic', ...)"
    assert is_permanent(error)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("requirement failed: odradek does not support Update mode.", "into_topic"),
        ("Data source odradek does not support continuous processing.", "leave the trigger out"),
        (_CRASH, "a Python process of Spark's died"),
        ('The data source "odradek" cannot be written in the "ErrorIfExists" mode.', "append"),
        (_NO_KAFKA, "write format('odradek') instead of format('kafka')"),
        (_NO_SOURCE, "there is no data source odradk; did you mean odradek?"),
        (_CHECKPOINT_FILE, "the checkpoint cannot be in /home/me/a file, which is a file; set"),
        (_CHECKPOINT_BELOW_FILE, "the checkpoint cannot be in /home/me/file, which is a file; set"),
        (_CHECKPOINT_REFUSED, "cannot be written: Mkdirs failed to create file:/proc/x (exists"),
    ],
)
def test_what_spark_says_about_this_source_comes_with_what_to_do(said: str, advice: str) -> None:
    assert advice in cause(said + _DESCRIPTION)
    assert "\n" not in cause(said)
    assert is_explained(said)


@pytest.mark.parametrize(
    "said",
    [
        "odradek.spark.arrow.ranges.DataLost: the log now begins at 7",
        "odradek.spark.data_loss.DataMissing: t [0] is gone",
        "odradek.spark.markers.WriteRefused: the checkpoint is older than the topic",
        "odradek.spark.markers.ReplayDiffers: batch 3 has been written",
        "org.apache.spark.sql.AnalysisException: no such column",
        "requirement failed: odradek does not support Update mode.",
        _CHECKPOINT_FILE,
        _NO_SOURCE,
    ],
)
def test_a_query_that_would_fail_again_is_not_started_again(said: str) -> None:
    assert is_permanent(said + _DESCRIPTION)


@pytest.mark.parametrize(
    "said",
    [
        "RequestTimedOut: nobody answers",
        _CHECKPOINT_REFUSED,
        _REFUSED,
        _CRASH,
    ],
)
def test_a_query_that_may_succeed_later_is_started_again(said: str) -> None:
    assert not is_permanent(said + _DESCRIPTION)


@pytest.mark.parametrize("error", [BadOption("no topic"), NoBrokerAvailable("refused")])
def test_errors_for_users_leave_sparks_processes_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(type(error)), plain_errors():
        raise error
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")


def test_other_errors_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(KeyError), plain_errors():
        raise KeyError("a defect")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
