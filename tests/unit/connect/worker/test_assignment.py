"""Tasks are shared out evenly, and move no more than that needs."""

import random

from odradek.connect.engine.engine import TaskId
from odradek.connect.worker.assignment import assign


def tasks(connectors: int, each: int) -> list[TaskId]:
    return [TaskId(f"c{name}", number) for name in range(connectors) for number in range(each)]


def moved(before: dict[str, list[TaskId]], after: dict[str, list[TaskId]]) -> int:
    return sum(len(set(mine) - set(before.get(name, ()))) for name, mine in after.items())


def test_nobody_is_there() -> None:
    assert assign(tasks(1, 1), [], {}) == {}


def test_one_worker_has_everything() -> None:
    assert assign(tasks(2, 2), ["a"], {}) == {"a": tasks(2, 2)}


def test_tasks_of_a_connector_are_on_several_workers() -> None:
    shared = assign(tasks(2, 2), ["a", "b"], {})
    assert all({task.connector for task in mine} == {"c0", "c1"} for mine in shared.values())


def test_a_new_worker_gets_its_share_and_no_more_moves() -> None:
    before = assign(tasks(6, 1), ["a", "b"], {})
    after = assign(tasks(6, 1), ["a", "b", "c"], before)
    assert sorted(map(len, after.values())) == [2, 2, 2]
    assert moved(before, after) == 2


def test_only_the_tasks_of_a_worker_that_is_gone_move() -> None:
    before = assign(tasks(9, 1), ["a", "b", "c"], {})
    after = assign(tasks(9, 1), ["a", "b"], before)
    assert moved(before, after) == 3


def test_two_workers_that_say_the_same_task_get_it_once() -> None:
    both = {"a": [TaskId("c0", 0)], "b": [TaskId("c0", 0)]}
    shared = assign(tasks(1, 1), ["a", "b"], both)
    assert sorted(map(len, shared.values())) == [0, 1]


def test_any_history_is_even_whole_and_repeatable() -> None:
    chance = random.Random(7)
    shared: dict[str, list[TaskId]] = {}
    for _ in range(300):
        workers = chance.sample("abcdefg", chance.randint(1, 7))
        wanted = chance.sample(tasks(8, 4), chance.randint(0, 32))
        after = assign(wanted, workers, shared)
        assert after == assign(reversed(wanted), reversed(workers), shared)
        assert sorted(task for mine in after.values() for task in mine) == sorted(wanted)
        sizes = [len(mine) for mine in after.values()]
        assert max(sizes) - min(sizes) <= 1
        assert after == assign(wanted, workers, after)
        shared = after
