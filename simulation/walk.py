"""A random walk over the steps of a scenario. The seed decides which steps and how often.

Swarm testing: each seed switches some steps off and makes others frequent, so that one walk is made
of kills and clean stops alone and the next of cut links and deleted topics. Long sequences of a few
kinds of steps reach states that an even mixture of all kinds hardly ever reaches. Half of the seeds
take one of the scenario's themes instead: a few steps that belong together, because bugs were found
by walks made of just these.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final

from simulation.world import Simulation

Step = Callable[[], Awaitable[None]]

# The factors that the seed draws for the weight of each step.
_FACTORS: Final = (0.0, 0.0, 1.0, 1.0, 4.0)
# The share of seeds that take a theme.
_THEME_PROBABILITY: Final = 0.5


class Walk:
    """The steps of one run. `weights` are those of an average seed; a step without one has 1."""

    def __init__(
        self,
        simulation: Simulation,
        steps: Mapping[str, Step],
        weights: Mapping[str, float] | None = None,
        always: tuple[str, ...] = (),
        themes: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """The steps in `always` are never switched off: without them nothing would happen."""
        self.taken: dict[str, int] = {}
        self._simulation = simulation
        self._random: Random = simulation.random("walk")
        self._steps = steps
        usual = weights or {}
        swarm = simulation.random("swarm")
        self._weights = {
            name: usual.get(name, 1.0) * max(swarm.choice(_FACTORS), 1.0 if name in always else 0.0)
            for name in steps
        }
        if themes and swarm.random() < _THEME_PROBABILITY:
            theme = swarm.choice(themes)
            self._weights = {name: usual.get(name, 1.0) for name in theme if name in steps}
        if not any(self._weights.values()):
            self._weights = dict.fromkeys(steps, 1.0)

    @property
    def weights(self) -> Mapping[str, float]:
        return self._weights

    async def take(self, count: int) -> None:
        """Takes this many steps, one after the other."""
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(count):
            name = self._random.choices(names, weights)[0]
            self.taken[name] = self.taken.get(name, 0) + 1
            self._simulation.trace.add("-", f"step: {name}")
            await self._steps[name]()

    def summary(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(self.taken.items()))
