"""The broker: network server, dispatcher, handlers, and the composition root.

`Broker(settings, world)` and `await broker.run()` are all a caller needs.
"""

from odradek.broker.broker import Broker, BrokerCannotStart

__all__ = ["Broker", "BrokerCannotStart"]
