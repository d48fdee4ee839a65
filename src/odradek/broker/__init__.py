"""The broker: connections in front, handlers behind, one composition root.

`Broker(settings, world)` and `await broker.run()` are all a caller needs.
"""

from odradek.broker.broker import Broker, BrokerCannotStart

__all__ = ["Broker", "BrokerCannotStart"]
