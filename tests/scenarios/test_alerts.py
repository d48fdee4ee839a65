"""Some of the shipped alerts, caused in a live cluster. `python -m tests.scenarios.alerts` causes
all; tests/deploy fires them from recorded series too."""

from pathlib import Path

import pytest

from tests.deploy.prometheus import prometheus_program
from tests.deploy.series import alerts
from tests.needs import need
from tests.scenarios.alert_causes import CAUSES, Cause
from tests.scenarios.alerts import cause_and_watch

_SHORT = ("OdradekBrokerDown", "OdradekLagSecondsHigh")


def test_each_alert_is_caused() -> None:
    caused = [name for cause in CAUSES for name in cause.alerts]
    assert sorted(caused) == sorted(alerts())


def test_no_cause_has_settings_that_its_brokers_do_not_read() -> None:
    given = [name for cause in CAUSES for name in cause.settings]
    assert given
    assert [name for name in given if name.startswith("zookeeper.")] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cause", [cause for cause in CAUSES if cause.alerts[0] in _SHORT], ids=lambda one: one.alerts[0]
)
async def test_an_alert_fires_and_resolves(cause: Cause, tmp_path: Path) -> None:
    need(prometheus_program)
    seen = await cause_and_watch(cause, tmp_path)
    assert [one.problem for one in seen] == [""] * len(cause.alerts)
    assert all(one.fired_s and one.resolved_s for one in seen)
