"""What `odradek sql` shows in a terminal."""

from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.cli.services.sql_actions import shown_entity
from odradek.cli.services.sql_terminal import columns_in, completions, fitted, pointing


def test_words_and_names_are_completed() -> None:
    known = ["ORDERS", "OR REPLACE", "SELECT", "ON"]
    assert completions("or", known) == ["ORDERS", "OR REPLACE"]
    assert completions("", known) == []


def test_rows_fit_the_width() -> None:
    assert fitted(["one", "x" * 40, "three"], 36) == "one        | xxxxxxxxx… | three"
    assert fitted(["a", "b"], 3) == "a      | b"
    assert fitted(["two\nlines"], 20) == "two lines"


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        ("`A` INT, `B` STRING", ["`A` INT", "`B` STRING"]),
        ("`A` DECIMAL(6, 2), `B` STRUCT<`X` INT, `Y` MAP<STRING, INT>>",
         ["`A` DECIMAL(6, 2)", "`B` STRUCT<`X` INT, `Y` MAP<STRING, INT>>"]),
        ("`A,<` INT", ["`A,<` INT"]),
    ],
)  # fmt: skip
def test_a_header_is_divided_at_its_columns(schema: str, columns: list[str]) -> None:
    assert columns_in(schema) == columns


def test_an_error_points_at_its_place() -> None:
    text = "SELECT a,\n\tnothing FROM s"
    assert pointing("line 2:2: Column 'NOTHING' cannot be resolved", text) == (
        "\tnothing FROM s\n\t^\nline 2:2: Column 'NOTHING' cannot be resolved"
    )
    assert pointing("the server does not answer", text) == "the server does not answer"
    assert pointing("line 9:1: what", text) == "line 9:1: what"


def test_answers_are_shown_for_people() -> None:
    warning = {"@type": "warning_entity", "statementText": "", "message": "It exists"}
    assert shown_entity(warning) == "It exists"
    made = {"@type": "connector_info", "statementText": "", "info": {"name": "lines"}}
    assert shown_entity(made) == "Created connector lines"
    listed = {"name": "lines", "type": "source", "className": "F", "state": "RUNNING"}
    connectors = {"@type": "connector_list", "statementText": "", "connectors": [listed]}
    assert shown_entity(connectors).splitlines()[1].split() == ["lines", "source", "F", "RUNNING"]
    offsets = {"partition": 0, "logStartOffset": 1, "logEndOffset": 9, "consumerOffset": 7}
    summary = {"topicSummaries": [{"kafkaTopic": "orders", "offsets": [offsets]}]}
    source = {
        "type": "TABLE", "name": "T", "topic": "t", "fields": [], "statistics": "total: 3",
        "errorStats": "", "queryOffsetSummaries": [summary], "readQueries": [], "writeQueries": [],
    }  # fmt: skip
    shown = shown_entity({"@type": "sourceDescription", "sourceDescription": source}).splitlines()
    assert shown[0] == "TABLE T, topic t"
    assert "total: 3" in shown
    assert shown[-1].split() == ["orders", "0", "1", "9", "7"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        # A word of the language.
        ("topic", "WITH has no property TOPIC; did you mean KAFKA_TOPIC?"),
        ("source", "WITH has no property SOURCE; there are KAFKA_TOPIC, PARTITIONS, "),
    ],
)
def test_a_property_that_there_is_not_is_answered(
    name: str, answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.sql"
    file.write_text(f"CREATE STREAM s (id INT KEY) WITH ({name}='a', value_format='JSON');")
    assert main(["sql-test", str(file)]) == 1
    said = capsys.readouterr()
    assert f"line 1:36: {answer}" in said.out + said.err
