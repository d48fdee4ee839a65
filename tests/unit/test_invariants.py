from odradek.invariants import History, InvariantViolation, check_thoroughly, is_thorough


def test_a_violation_tells_the_recent_history() -> None:
    history = History()
    for epoch in range(100):
        history.note(f"leads in epoch {epoch}")
    violation = InvariantViolation("orders-0", "the high watermark fell", history.events())
    assert str(violation).splitlines()[0] == "orders-0: the high watermark fell"
    assert str(violation).splitlines()[-1] == "  leads in epoch 99"
    assert len(violation.history) == 32


def test_thorough_checks_are_on_in_tests_and_can_be_switched_off() -> None:
    assert is_thorough()
    check_thoroughly(False)
    try:
        assert not is_thorough()
    finally:
        check_thoroughly(True)
