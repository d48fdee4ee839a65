"""Which worker runs which task: evenly, and with as little movement as that allows.

1. A task stays where it runs, as long as that worker has no more than its share.
2. The others go to the workers with the fewest tasks. Among these, one that has fewer tasks of the
   same connector comes first, so that the tasks of one connector are on several machines.

Shares differ by one at most. The result depends on nothing but the arguments.
"""

from collections.abc import Iterable, Mapping

from odradek.connect.engine.engine import TaskId


def assign(
    tasks: Iterable[TaskId], workers: Iterable[str], running: Mapping[str, Iterable[TaskId]]
) -> dict[str, list[TaskId]]:
    """Returns the tasks of each worker. `running` says which ones each worker has now."""
    wanted = sorted(set(tasks))
    names = sorted(set(workers))
    if not names:
        return {}
    assigned: dict[str, list[TaskId]] = {name: [] for name in names}
    least, more = divmod(len(wanted), len(names))
    free = set(wanted)
    # Those with the most tasks now are the ones that keep one more than the others.
    for name in sorted(names, key=lambda name: (-len(set(running.get(name, ())) & free), name)):
        mine = sorted(set(running.get(name, ())) & free)
        share = least + (1 if more > 0 and len(mine) > least else 0)
        if share > least:
            more -= 1
        assigned[name] = mine[:share]
        free.difference_update(assigned[name])
    for task in sorted(free):
        name = min(names, key=lambda name: _load(assigned[name], task, name))
        assigned[name].append(task)
    return {name: sorted(mine) for name, mine in assigned.items()}


def _load(mine: list[TaskId], task: TaskId, name: str) -> tuple[int, int, str]:
    return len(mine), sum(one.connector == task.connector for one in mine), name
