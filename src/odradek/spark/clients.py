"""One client of each kind for each process of Spark's, made when it is first needed.

Python workers serve many tasks and the driver's process many triggers: a connection that stays
saves each of them a few milliseconds. A worker does one thing at a time, so sharing is safe.
"""

from functools import cache
from typing import TYPE_CHECKING

from odradek.client.settings import AdminSettings, ConsumerSettings
from odradek.client.sync import Admin

if TYPE_CHECKING:
    from odradek.spark.arrow.ranges import RangeReader


@cache
def admin(settings: AdminSettings) -> Admin:
    return Admin(settings)


@cache
def range_reader(settings: ConsumerSettings) -> "RangeReader":
    # Only tasks read, and numba takes half a second: what only plans should not wait for it.
    from odradek.spark.arrow.ranges import RangeReader  # noqa: PLC0415

    return RangeReader(settings)
