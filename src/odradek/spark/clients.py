"""One client of each kind for each Python process of Spark, created when it is first needed.

A Python worker runs many tasks, and the driver's process handles many triggers. A connection that
stays open saves each of them a few milliseconds. A worker runs one task at a time, so sharing is
safe.
"""

from functools import cache
from typing import TYPE_CHECKING

from odradek.client.settings import AdminSettings, ConsumerSettings
from odradek.client.sync import Admin

if TYPE_CHECKING:
    from odradek.spark.arrow.ranges import RangeReader

_admins: dict[AdminSettings, Admin] = {}


def admin(settings: AdminSettings) -> Admin:
    if settings not in _admins:
        _admins[settings] = Admin(settings)
    return _admins[settings]


def close_admins() -> None:
    """Closes the admin clients and their threads; called by a command before it starts Java."""
    while _admins:
        _admins.popitem()[1].close()


@cache
def range_reader(settings: ConsumerSettings) -> "RangeReader":
    # Loading numba takes half a second. Only tasks read records; processes that only plan need not
    # wait.
    from odradek.spark.arrow.ranges import RangeReader  # noqa: PLC0415

    return RangeReader(settings)
