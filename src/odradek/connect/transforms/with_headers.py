"""A record with other headers."""

from collections.abc import Iterable
from dataclasses import replace

from odradek.connect.records import Header
from odradek.connect.transforms.transform import R


def with_headers(record: R, headers: Iterable[Header]) -> R:
    return replace(record, headers=tuple(headers))
