"""Runs a program in a simulated world, from a seed to a trace."""

import gc
import random
import warnings
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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


def run(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    seed: int,
    *,
    time_limit_s: float = 86_400.0,
) -> Result[T]:
    """Runs `main(simulation)` on a host of its own, to its end or to the first failure.

    A failure raises and carries the seed and the end of the trace as a note.
    """
    simulation = Simulation(seed, time_limit_s=time_limit_s)
    loop = simulation.loop
    # Collection at moments of its own would run finalizers at moments of its own.
    collects = gc.isenabled()
    gc.disable()
    random_state = random.getstate()
    random.seed(seed)
    try:
        task = simulation.host(MAIN_HOST).start(lambda _: main(simulation), MAIN_HOST)
        value = loop.run_until_complete(task)
        gc.collect()
        loop.raise_failure()
        simulation.trace.seal(f"end: {loop.steps} steps, fingerprint {loop.fingerprint:08x}")
    except BaseException as error:
        tail = list(simulation.trace)[-25:]
        simulation.trace.seal("failed")
        error.add_note("\n".join([f"seed {seed}, the trace ends:", *tail]))
        raise
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            simulation.network.close()
            loop.close()
            gc.collect()
        random.setstate(random_state)
        if collects:
            gc.enable()
    return Result(seed, value, simulation.trace, loop.time(), loop.steps)
