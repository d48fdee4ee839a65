"""Runs a program in a simulated world, from a seed to a trace."""

import gc
import logging
import random
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from odradek import invariants
from odradek.world import timeslice
from simulation.process import current_process
from simulation.trace import Trace
from simulation.world import Simulation

T = TypeVar("T")

MAIN_HOST = "main"


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    seed: int
    value: T
    trace: Trace
    virtual_s: float
    steps: int


class _LogsToTrace(logging.Handler):
    """Copies log lines of production code into the trace. An error that is logged with a traceback
    ends the run."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.INFO)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        process = current_process.get()
        host = process.host if process is not None else "-"
        message = record.getMessage()
        self._simulation.trace.add(host, f"{record.levelname.lower()}: {message}")
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            self._simulation.loop.fail(f"{host} logged an error: {message}", record.exc_info[1])


@contextmanager
def _controlled_collection() -> Iterator[None]:
    """Switches automatic garbage collection off during a run, because it would run finalizers at
    moments that the seed does not decide. Objects from before the run are frozen, so that the
    explicit collections neither finalize them nor spend time on them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        with _silent_finalizers():
            gc.collect()
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _silent_finalizers() -> Iterator[None]:
    """Drops what finalizers would print while the objects of a finished run are collected.

    Coroutines of killed processes are unwound then, and some of them await or use the closed loop
    in a `finally`. Python reports that to `sys.unraisablehook`; from 3.13 on it does so for every
    asynchronous generator in the stack. It says nothing about the run, which is over.
    """
    previous = sys.unraisablehook
    sys.unraisablehook = _ignore_unraisable
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = previous


def _ignore_unraisable(_: object) -> None:
    """Stands in for `sys.unraisablehook`."""


def _drawn_stopwatch(simulation: Simulation) -> Callable[[], float]:
    """Returns a stopwatch that the seed drives: each reading is later by a random time, so long
    loops yield to other tasks at other steps in other runs, and at the same steps in this one."""
    draw = simulation.random("timeslice").random
    now_s = 0.0

    def read() -> float:
        nonlocal now_s
        now_s += draw() * timeslice.SLICE_S / 2
        return now_s

    return read


@contextmanager
def _brief_log_records() -> Iterator[None]:
    """Leaves out of log records what costs most to find and what no trace shows: the line of code,
    the thread and the process. (See "Optimization" in the documentation of `logging`.)"""
    names = ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing")
    before = {name: getattr(logging, name) for name in names}
    for name in names:
        setattr(logging, name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(logging, name, value)


@contextmanager
def _isolated(simulation: Simulation) -> Iterator[None]:
    """Seeds the global `random` module and redirects logs for one run, and restores both."""
    random_state = random.getstate()
    random.seed(simulation.seed)
    logger = logging.getLogger("odradek")
    level, propagates = logger.level, logger.propagate
    handler = _LogsToTrace(simulation)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with timeslice.measured_by(_drawn_stopwatch(simulation)), _brief_log_records():
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
        random.setstate(random_state)


def run(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    seed: int,
    *,
    time_limit_s: float = 86_400.0,
    cpu_limit_s: float = 60.0,
) -> Result[T]:
    """Runs `main(simulation)` on a host of its own, to its end or to the first failure.

    A failure raises and carries the seed and the end of the trace as a note. So does
    a run that costs more than `cpu_limit_s` of a processor's time. Invariants are checked
    thoroughly (`odradek.invariants`).
    """
    was_thorough = invariants.is_thorough()
    invariants.check_thoroughly(True)
    try:
        with _controlled_collection():
            return _run(main, seed, time_limit_s=time_limit_s, cpu_limit_s=cpu_limit_s)
    finally:
        invariants.check_thoroughly(was_thorough)


def _run(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    seed: int,
    *,
    time_limit_s: float,
    cpu_limit_s: float,
) -> Result[T]:
    simulation = Simulation(seed, time_limit_s=time_limit_s, cpu_limit_s=cpu_limit_s)
    loop = simulation.loop
    with _isolated(simulation):
        try:
            task = simulation.host(MAIN_HOST).start(lambda _: main(simulation), MAIN_HOST)
            value = loop.run_until_complete(task)
            gc.collect()
            loop.raise_failure()
            simulation.trace.seal(f"end: {loop.steps} steps, fingerprint {loop.fingerprint:08x}")
        except BaseException as error:
            simulation.trace.seal("failed")
            tail = simulation.trace.tail(25)
            error.add_note("\n".join([f"seed {seed}, the trace ends:", *tail]))
            raise
        finally:
            simulation.end()
            with _silent_finalizers():
                simulation.network.close()
                loop.close()
                gc.collect()
    return Result(seed, value, simulation.trace, loop.time(), loop.steps)
