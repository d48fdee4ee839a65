"""What members of the registry's group say of themselves."""

import pytest

from odradek.registry.election import _identity_in


@pytest.mark.parametrize(
    "metadata", [b"", b"{", b'{"host": "\xff"}', b"[]"], ids=["empty", "cut", "UTF-8", "list"]
)
def test_a_member_that_is_no_registry_is_not_elected(metadata: bytes) -> None:
    """Anybody who may read the group can join it; the election must go on."""
    assert not _identity_in(metadata).master_eligibility
