"""Refuses transactional requests that arrive late, over a connection that their producer has left.

In version 1 of transactions a producer keeps its epoch from one transaction to the next. It gives
up a connection that does not answer, sends its EndTxn again over a new one, is answered, and begins
the next transaction. If the network was only slow, the old connection delivers the first EndTxn
then. That would end the next transaction, and for instance commit what its producer is about to
abort. Nothing in the request tells the two apart. Version 2 has an epoch for each transaction
(KIP-890), but librdkafka and older clients speak version 1.

So the broker remembers over which connection each producer was heard last. A producer uses one
connection at a time for these requests, and never goes back to an earlier one: what arrives there
is late. Handlers call `check` before they ask the coordinator.

Two cases are not covered. After a change of the coordinator the next one has not seen the
connections. And a late request may be the first that is heard over its connection: it is served,
and the connection that the producer really uses is closed at the next request, so that the producer
connects again.
"""

from collections import OrderedDict
from typing import Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.types import ProducerEpoch, ProducerId

# Producers that were heard last; of each, some connections that it has left.
_MAX_PRODUCERS: Final = 10_000
_MAX_LEFT: Final = 4

_Key = tuple[str, ProducerId, ProducerEpoch]


class LateRequests:
    """Remembers connections by the address and port of the client: no two that are open have the
    same. A new connection that gets an old port is refused once, and the client connects again.

    Invariant: the connection that a producer uses is not among those that it has left.
    """

    def __init__(self) -> None:
        # The connection in use, and those before it, the newest first.
        self._heard: OrderedDict[_Key, tuple[str, ...]] = OrderedDict()

    def check(
        self, address: str, transactional_id: str, producer_id: ProducerId, epoch: ProducerEpoch
    ) -> None:
        """Raises `MalformedMessage`, which closes the connection, if the request is late."""
        key = (transactional_id, producer_id, epoch)
        heard = self._heard.get(key, ())
        if address in heard[1:]:
            raise MalformedMessage(
                f"a request of transaction {transactional_id} came late: its producer"
                f" (id {producer_id}, epoch {epoch}) has gone on over another connection"
            )
        if heard[:1] != (address,):
            heard = self._heard[key] = (address, *heard[:_MAX_LEFT])
        assert address not in heard[1:]
        self._heard.move_to_end(key)
        while len(self._heard) > _MAX_PRODUCERS:
            self._heard.popitem(last=False)
