"""Pictures of plans, of both kinds of text."""

from odradek.console.sql.drawing import BOX_HEIGHT, Picture, picture_of

OURS = """\
source-1 [orders] ORDERS
  -> filter-2 PRICE > 3
    -> join-4 (below)
source-3 [customers]
  -> join-4 (store: join-4)
    -> sink => [orders-of-customers]
    -> count-5 (store: count-5)"""
STREAMS = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0 (topics: [orders, more])
      --> Project
    Processor: Project (stores: [])
      --> GROUP-SINK
      <-- KSTREAM-SOURCE-0
    Sink: GROUP-SINK (topic: Aggregate-repartition)
      <-- Project

  Sub-topology: 1
    Source: GROUP-SOURCE (topics: [Aggregate-repartition])
      --> AGGREGATE
    Processor: AGGREGATE (stores: [Aggregate-Materialize])
      --> none
      <-- GROUP-SOURCE"""


def arrows(picture: Picture | None) -> set[tuple[str, str]]:
    assert picture is not None
    return set(picture.arrows)


def test_of_our_server() -> None:
    assert arrows(picture_of(OURS)) == {
        ("topic orders", "source-1"),
        ("source-1", "filter-2"),
        ("filter-2", "join-4"),
        ("topic customers", "source-3"),
        ("source-3", "join-4"),
        ("join-4", "sink"),
        ("sink", "topic orders-of-customers"),
        ("join-4", "count-5"),
    }


def test_of_kafka_streams_with_a_topic_between_the_parts() -> None:
    picture = picture_of(STREAMS)
    assert arrows(picture) == {
        ("topic orders", "KSTREAM-SOURCE-0"),
        ("topic more", "KSTREAM-SOURCE-0"),
        ("KSTREAM-SOURCE-0", "Project"),
        ("Project", "GROUP-SINK"),
        ("GROUP-SINK", "topic Aggregate-repartition"),
        ("topic Aggregate-repartition", "GROUP-SOURCE"),
        ("GROUP-SOURCE", "AGGREGATE"),
    }
    assert picture is not None
    assert picture.boxes["topic orders"].is_topic
    assert picture.boxes["AGGREGATE"].detail == "stores: [Aggregate-Materialize]"


def test_every_arrow_goes_down_and_no_boxes_overlap() -> None:
    for text in (OURS, STREAMS):
        picture = picture_of(text)
        assert picture is not None
        assert all(y1 < y2 for _, y1, _, y2 in picture.lines())
        places = {(box.x, box.y) for box in picture.boxes.values()}
        assert len(places) == len(picture.boxes)
        assert all(0 <= x < picture.width and y + BOX_HEIGHT <= picture.height for x, y in places)


def test_boxes_are_just_above_what_they_lead_to() -> None:
    """An arrow over several rows would go through the boxes of another branch."""
    picture = picture_of(OURS)
    assert picture is not None
    rows = {name: box.row for name, box in picture.boxes.items()}
    assert rows["source-3"] == rows["filter-2"] == rows["join-4"] - 1
    assert rows["topic customers"] == rows["source-3"] - 1
    # A branch that ends early ends where it does.
    assert rows["count-5"] == rows["join-4"] + 1


def test_a_plan_that_reads_what_it_writes_ends() -> None:
    picture = picture_of("source [a]\n  -> sink => [a]")
    assert arrows(picture) == {("topic a", "source"), ("source", "sink"), ("sink", "topic a")}


def test_other_texts_have_no_picture() -> None:
    assert picture_of("") is None
    assert picture_of("\n") is None
    assert picture_of("nothing that is drawn") is None
