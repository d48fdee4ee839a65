"""The ring buffer of lags: as long as the charts, whatever groups come and go."""

from odradek.console.watching import LagHistory


def test_groups_come_and_go() -> None:
    history = LagHistory(3)
    history.add({"a": 1})
    history.add({"a": 2, "b": 5})
    assert list(history.of("a")) == [1, 2]
    assert list(history.of("b")) == [-1, 5]
    assert list(history.of("nobody")) == [-1, -1]
    for lag in (6, 7, 8):
        history.add({"b": lag})
    assert list(history.of("b")) == [6, 7, 8]
    assert list(history.of("a")) == [-1, -1, -1]
    assert "a" not in history._lags
