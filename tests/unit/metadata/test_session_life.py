"""Which answers of the store count for what a broker may act on."""

from odradek.metadata.session_life import SessionLife


def _connected(until_s: float) -> SessionLife:
    life = SessionLife()
    life.connect(is_resumed=False)
    life.prolong(until_s)
    return life


def test_an_answer_counts_while_the_connection_lasts() -> None:
    life = _connected(10)
    life.prolong(20)
    life.prolong(15)
    assert (life.alive_until_s, life.informed_until_s) == (20, 20)


def test_a_resumed_connection_counts_once_everything_was_read() -> None:
    life = _connected(10)
    life.connect(is_resumed=True)
    life.prolong(15)
    assert (life.alive_until_s, life.informed_until_s) == (15, 10)
    life.note_all_read(life.resumptions)
    assert life.informed_until_s == 15
    life.prolong(20)
    assert life.informed_until_s == 20


def test_what_was_read_before_another_resumption_does_not_count() -> None:
    life = _connected(10)
    life.connect(is_resumed=True)
    resumption = life.resumptions
    life.connect(is_resumed=True)
    life.prolong(15)
    life.note_all_read(resumption)
    assert (life.alive_until_s, life.informed_until_s) == (15, 10)


def test_a_new_session_has_missed_nothing() -> None:
    life = _connected(10)
    life.connect(is_resumed=True)
    life.end()
    assert life.alive_until_s == life.informed_until_s == float("-inf")
    life.connect(is_resumed=False)
    life.prolong(15)
    assert (life.alive_until_s, life.informed_until_s) == (15, 15)
