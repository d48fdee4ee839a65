"""What one client does in a benchmark of clients, in a process of its own.

`benchmarks.clients` starts it: `python -m benchmarks.client_work CLIENT WORK TOPIC --bootstrap ...`
prints one line of JSON. Each client is used as its documentation shows it (`idioms_*`), with the
same settings: acks=all, idempotence, the same linger and batch size, no compression, one group with
automatic commits. CPU is user and system time of this process, from making the client to closing
it; imports are not counted.

The work of `reply` is the other side of `ask`: it answers each record of TOPIC with a record to the
topic of replies until it is ended.
"""

import argparse
import asyncio
import cProfile
import json
import resource
import sys
import time
from importlib import import_module
from typing import Final

import uvloop

from benchmarks.client_task import WARM_UP_PAIRS, Task, Work

CLIENTS: Final = ("odradek", "aiokafka", "confluent")
WORKS: Final = ("send", "send+gather", "iterate", "poll", "ask", "reply")


def run(work: Work, task: Task, loop: str) -> None:
    """Does the work: in an event loop if it is a coroutine."""
    coroutine = work(task)
    if coroutine is None:
        return
    factory = uvloop.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(coroutine)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--replies", default="")
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument("--group", default="benchmark")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--profile", help="write a profile of cProfile to this file")
    asked = parser.parse_args()
    # Only the client that is measured is imported.
    work: Work = import_module(f"benchmarks.idioms_{asked.client}").WORKS[asked.work]
    task = Task(
        asked.bootstrap,
        asked.topic,
        asked.replies,
        asked.records,
        b"x" * asked.record_bytes,
        asked.linger_ms,
        asked.group,
    )
    before_mb = peak_mb()
    began_s, cpu_s = time.perf_counter(), time.process_time()
    if asked.profile:
        profiler = cProfile.Profile()
        profiler.runcall(run, work, task, asked.loop)
        profiler.dump_stats(asked.profile)
    else:
        run(work, task, asked.loop)
    figures = {
        "seconds": time.perf_counter() - began_s,
        "cpu_s": time.process_time() - cpu_s,
        "imported_mb": before_mb,
        "peak_mb": peak_mb(),
        "durations_s": task.durations_s[WARM_UP_PAIRS:],
    }
    json.dump(figures, sys.stdout)
    print()


if __name__ == "__main__":
    main()
