import pytest

from odradek.broker.schema_validation import validation
from tests.unit.broker.schema_validation.validating_broker import Registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    monkeypatch.setattr(validation, "AskedRegistry", lambda _: found)
    return found
