"""The exceptions of `odradek.connect`.

ConnectError
├── DataError          a value does not fit its schema, or cannot be converted or transformed
├── InvalidConfig      the settings of a plug-in are wrong; the message names each of them
└── Unavailable        the other side does not answer or is busy: the same call may succeed later
"""


class ConnectError(Exception):
    """The message is written for the user of a connector."""


class DataError(ConnectError):
    pass


class InvalidConfig(ConnectError):
    pass


class Unavailable(ConnectError):
    pass
