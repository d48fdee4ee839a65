"""Seeds that nobody has played before: others with every commit, the same for all who test it.

So a run that fails on one machine fails on every other, and again after a look at it.
`ODRADEK_FIRST_SEED=N` begins elsewhere; where there is no history, chance decides.
"""

import os
import random
import subprocess
from functools import cache
from pathlib import Path

_SEEDS = 10**9


@cache
def first_fresh_seed() -> int:
    chosen = os.environ.get("ODRADEK_FIRST_SEED")
    if chosen:
        return int(chosen)
    commit = _commit()
    return random.SystemRandom().randrange(_SEEDS) if commit is None else seed_of(commit)


def seed_of(commit: str) -> int:
    """The first seed for a commit, by its hash."""
    return int(commit, 16) % _SEEDS


def _commit() -> str | None:
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()
