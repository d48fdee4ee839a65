"""The short form of `tests.scenarios.acl_matrix`."""

import pytest

from tests.scenarios.acl_matrix import Asked, Cluster, run_cases


@pytest.mark.parametrize("seed", [11, 12])
async def test_the_authorizer_decides_as_the_oracle(seed: int) -> None:
    allowed, denied = await run_cases(1_500, seed)
    assert allowed > 200
    assert denied > 200


async def test_a_wrong_decision_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Cluster, asked: Asked) -> bool:
        self.oracle.acls = set(list(self.oracle.acls)[1:])
        return compare(self, asked)

    compare = Cluster.compare
    monkeypatch.setattr(Cluster, "compare", forgetful)
    with pytest.raises(AssertionError):
        await run_cases(1_500, 11)
