"""Our transforms and predicates do what Apache's do, on a part of the cases: see
`tests.conformance.connect_transforms` for all of them."""

from tests.conformance.connect_transforms import Peer, cases, differences
from tests.needs import need

# About five records of each configuration, of fifty.
_SHARE = 0.1


def test_transforms_and_predicates_are_those_of_kafka_connect() -> None:
    with need(Peer) as peer:
        found = list(differences(peer, cases(share=_SHARE)))
    assert not found, "\n".join(map(str, found[:20]))
