"""Transforms one after the other, each for the records that its predicate selects."""

from odradek.connect.plugins import make_predicate, make_transform
from odradek.connect.records import Record
from odradek.connect.transforms.chain import Chain, Link, properties_below


def test_each_transform_sees_the_record_of_the_one_before() -> None:
    first = Link("a", make_transform("HoistField$Value", {"field": "x"}))
    second = Link("b", make_transform("ExtractField$Value", {"field": "x"}))
    record = Record("t", value=1)
    assert Chain([first, second, second]).apply(Record("t", value={"x": 2})) == Record("t", value=2)
    assert Chain([]).apply(record) is record


def test_a_predicate_selects_and_a_dropped_record_goes_no_further() -> None:
    tombstones = make_predicate("RecordIsTombstone", {})
    drop = Link("drop", make_transform("Filter", {}), tombstones)
    keep = drop._replace(is_negated=True)
    never = Link("never", make_transform("ExtractField$Value", {"field": "x"}))
    assert Chain([drop]).apply(Record("t", value=1)) == Record("t", value=1)
    assert Chain([drop, never]).apply(Record("t")) is None
    assert Chain([keep]).apply(Record("t", value=1)) is None
    assert Chain([keep]).apply(Record("t")) == Record("t")


def test_properties_below_a_name() -> None:
    properties = {"transforms.a.type": "X", "transforms.ab.type": "Y", "name": "n"}
    assert properties_below("transforms.a.", properties) == {"type": "X"}
