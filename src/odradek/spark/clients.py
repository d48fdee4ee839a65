"""One client of each kind for each process of Spark's, made when it is first needed.

Python workers serve many tasks and the driver's process many triggers: a connection that stays
saves each of them a few milliseconds. A worker does one thing at a time, so sharing is safe.
"""

from functools import cache

from odradek.client.arrow.ranges import RangeReader
from odradek.client.settings import AdminSettings, ConsumerSettings
from odradek.client.sync import Admin


@cache
def admin(settings: AdminSettings) -> Admin:
    return Admin(settings)


@cache
def range_reader(settings: ConsumerSettings) -> RangeReader:
    return RangeReader(settings)
