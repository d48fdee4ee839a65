"""The declarative form: what it means, and what it says about mistakes."""

import pytest

from odradek.spark.pipelines.spec import BadPipeline, read_spec

WHOLE = """
name = "loud"
bootstrap = "kafka:9092"

[spark]
spark.sql.shuffle.partitions = 2

[source]
topic = "clicks"
starting = "earliest"
value = "json"
schema = "page string"
watermark = { column = "timestamp", delay = "10 seconds" }

[[transform]]
sql = "select page, count(*) as clicks from source group by page"
name = "counts"

[[transform]]
python = "steps.py:shout"

[sink]
topic = "loud-clicks"
key = "page"
mode = "update"
trigger = "2 seconds"
options = { "kafka.compression.type" = "zstd" }
"""


def test_a_whole_file() -> None:
    spec = read_spec(WHOLE, "file")
    assert spec.name == "loud"
    assert spec.spark == {"spark.sql.shuffle.partitions": "2"}
    (source,) = spec.sources
    assert source.name == "source"
    assert source.options == {
        "kafka.bootstrap.servers": "kafka:9092",
        "subscribe": "clicks",
        "startingOffsets": "earliest",
    }
    assert (source.value, source.schema) == ("json", "page string")
    assert source.watermark == ("timestamp", "10 seconds")
    assert [one.name for one in spec.transforms] == ["counts", "step2"]
    assert spec.transforms[1].python == "steps.py:shout"
    assert spec.sink.options == {
        "kafka.bootstrap.servers": "kafka:9092",
        "topic": "loud-clicks",
        "kafka.compression.type": "zstd",
    }
    assert (spec.sink.key, spec.sink.value) == ("page", "json")
    assert (spec.sink.mode, spec.sink.trigger) == ("update", "2 seconds")


def test_the_least_a_file_may_say() -> None:
    spec = read_spec('[source]\ntopic = "a"\n[sink]\ntopic = "b"', "copy")
    assert spec.name == "copy"
    assert spec.sources[0].options["kafka.bootstrap.servers"] == "localhost:9092"
    assert not spec.transforms


def test_several_sources_have_names() -> None:
    spec = read_spec(
        '[source.left]\ntopic = "a"\n[source.right]\ntopic = "b"\n'
        '[[transform]]\nsql = "select * from left join right using (key)"\n'
        '[sink]\nformat = "console"',
        "join",
    )
    assert [one.name for one in spec.sources] == ["left", "right"]
    assert spec.sink.value is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[source", "not TOML"),
        ('[sink]\ntopic = "b"', "a \\[source\\] is needed"),
        ('[source]\ntopic = "a"', "a \\[sink\\] is needed"),
        ('[source]\nvalue = "string"\n[sink]\ntopic = "b"', "needs topic"),
        ('[source]\ntopics = "a"\ntopic = "a"\n[sink]\ntopic = "b"', "did you mean topic"),
        ('[source]\ntopic = 3\n[sink]\ntopic = "b"', "must be text"),
        ('[sorce]\ntopic = "a"\n[sink]\ntopic = "b"', "knows no sorce; did you mean source"),
        ('[source]\ntopc = "a"\n[sink]\ntopic = "b"', "knows no topc; did you mean topic"),
        ('[source]\ntopic = "a"\npattern = "a.*"\n[sink]\ntopic = "b"', "exclude each other"),
        ('[source]\ntopic = "a"\nformat = "kafka"\n[sink]\ntopic = "b"', 'leave format = "kafka"'),
        ('[source]\ntopic = "a"\n[[sink]]\ntopic = "b"', "with one pair of brackets"),
        (
            '[source]\ntopic = "a"\n[[transform]]\nname = "x"\n[sink]\ntopic = "b"',
            "needs either sql = ... or python",
        ),
        ('[source]\ntopic = "a"\nvalue = "json"\n[sink]\ntopic = "b"', "go together"),
        ('[source]\ntopic = "a"\nvalue = "avro"\n[sink]\ntopic = "b"', "one of binary"),
        ('[source]\ntopic = "a"\n[sink]\ntopic = "b"\nmode = "upsert"', "one of append"),
        ('[source]\ntopic = "a"\n[sink]\nformat = "console"\ntopic = "b"', "not for console"),
        ('[source]\ntopic = "a"\n[[transform]]\n[sink]\ntopic = "b"', "either sql"),
        ('[source]\ntopic = "a"\n[transform]\nsql = "s"\n[sink]\ntopic = "b"', "two brackets"),
        (
            '[source]\ntopic = "a"\n[[transform]]\npython = "f"\n[sink]\ntopic = "b"',
            "module:function",
        ),
        (
            '[source]\ntopic = "a"\n[[transform]]\nsql = "s"\nname = "source"\n[sink]\ntopic="b"',
            "two steps are named source",
        ),
        (
            '[source.a]\ntopic = "a"\n[source.b]\ntopic = "b"\n[sink]\ntopic = "c"',
            "joins or unites",
        ),
        (
            '[source]\ntopic = "a"\n[sink]\ntopic = "b"\ntrigger = "5 secs ago"',
            (
                'trigger = "5 secs ago" in .sink. is not a duration that Spark knows'
                ': write "5 seconds"'
            ),
        ),
        (
            '[source]\ntopic = "a"\n[sink]\ntopic = "b"\ntrigger = "availableNow"',
            'write trigger = "available-now"',
        ),
        (
            '[source]\ntopic="a"\nvalue="json"\nschema = "user strin, p string"\n[sink]\ntopic="b"',
            r"schema in .source.: column user: there is no type strin; did you mean string\?",
        ),
        (
            '[source]\ntopic="a"\nwatermark={column="timestamp",delay="10 min"}\n[sink]\ntopic="b"',
            'watermark.delay = "10 min" in .source. .* write "10 minutes"',
        ),
        ('[source]\ntopic = "a"\n[sink]\ntopic = "b"\nmode = "updte"', "did you mean update"),
        ('name = "a/b"\n[source]\ntopic = "a"\n[sink]\ntopic = "b"', "not a valid pipeline name"),
    ],
)
def test_a_mistake_is_named_in_one_line(text: str, said: str) -> None:
    with pytest.raises(BadPipeline, match=said) as caught:
        read_spec(text, "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'starting = "earlest"',
            r"starting in \[source\] must be earliest, latest or .*; did you mean earliest\?",
        ),
        ('path = "x"', r'written as options = \{ path = "..." \}'),
    ],
)
def test_a_mistake_in_a_source_is_told_in_the_words_of_the_file(line: str, said: str) -> None:
    with pytest.raises(BadPipeline, match=said):
        read_spec(f'[source]\ntopic = "a"\n{line}\n[sink]\ntopic = "b"\n', "file")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_sink_of_files_needs_a_directory(kind: str) -> None:
    """Java said so after twenty seconds, and the pipeline began again and again."""
    text = f'[source]\ntopic = "a"\n[sink]\nformat = "{kind}"\n'
    with pytest.raises(BadPipeline, match=r"\[sink\]: format = .* needs a directory: options = "):
        read_spec(text, "file")
    assert read_spec(f'{text}options = {{ path = "out" }}\n', "file").sink.format == kind
