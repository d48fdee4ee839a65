from odradek.telemetry.recent import QUANTILES, WINDOW_S, RecentValues


def test_quantiles_are_of_the_last_two_windows() -> None:
    values = RecentValues()
    values.observe(1000, 0.0)
    assert values.quantiles(1.0)[0] == 1024
    # The next window counts the one before it too.
    values.observe(1, WINDOW_S + 1)
    assert values.quantiles(WINDOW_S + 2)[-2:] == (1, 1024)
    # The one after does not count the first any more.
    values.observe(1, 2 * WINDOW_S + 2)
    assert values.quantiles(2 * WINDOW_S + 3)[-2:] == (1, 1)
    assert (values.count, values.total) == (3, 1002)


def test_after_a_long_silence_nothing_is_recent() -> None:
    values = RecentValues()
    values.observe(1000, 0.0)
    assert values.quantiles(10 * WINDOW_S) == (0,) * (len(QUANTILES) + 2)
    assert values.count == 1
