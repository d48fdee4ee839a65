"""JAAS lines and files: Java's rules for quotes and comments, and errors that show no secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.jaas import (
    InvalidJaas,
    LoginModule,
    jaas_file_path,
    jaas_line,
    parse_jaas_config,
    parse_jaas_file,
)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_line_has_a_class_a_flag_and_options() -> None:
    module = parse_jaas_config(f'{PLAIN} required username="ada" password="s3cret";')
    assert module == LoginModule(PLAIN, {"username": "ada", "password": "s3cret"})
    assert module.short_name == "PlainLoginModule"


def test_quotes_escapes_comments_and_bare_words_are_read_as_java_does() -> None:
    module = parse_jaas_config(
        f"""/* who */ {PLAIN} Required // must succeed
            username=ada-1_x$ password='a"b' other="q\\"\\\\;={{}}\\x\\101" tokenauth=true;"""
    )
    assert dict(module.options) == {
        "username": "ada-1_x$",
        "password": 'a"b',
        "other": 'q"\\;={}xA',
        "tokenauth": "true",
    }


@given(st.dictionaries(st.text("abcXYZ_-", min_size=1), st.text()))
def test_a_line_that_was_written_is_read_as_given(options: dict[str, str]) -> None:
    assert parse_jaas_config(jaas_line(PLAIN, options)).options == options


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "missing the class of a login module"),
        (PLAIN, "missing 'required'"),
        (f'{PLAIN} username="ada";', "must have 'required'|missing"),
        (f'{PLAIN} required username="ada" password="hunter2"', "missing ';'"),
        (f'{PLAIN} required password "hunter2";', "missing '=' after option password"),
        (f"{PLAIN} required password=;", "missing a value after option password"),
        (f'{PLAIN} required password="hunter2;', "a quote is not closed"),
        (f'{PLAIN} required password="hunter2"; /* ', "not closed"),
        (f"{PLAIN} required a=hunter2; {PLAIN} required;", "one login module"),
    ],
)
def test_a_wrong_line_is_explained_without_its_values(line: str, said: str) -> None:
    with pytest.raises(InvalidJaas, match=said) as caught:
        parse_jaas_config(line)
    assert "hunter2" not in str(caught.value)


def test_a_module_shows_no_values() -> None:
    assert "hunter2" not in repr(parse_jaas_config(f"{PLAIN} required password=hunter2;"))


def test_a_file_has_sections() -> None:
    sections = parse_jaas_file(
        f"""
        // brokers
        KafkaServer {{
            {PLAIN} required user_ada="x";
            org.apache.kafka.common.security.scram.ScramLoginModule required;
        }};
        internal.KafkaServer {{ {PLAIN} required; }};
        KafkaClient {{ {PLAIN} required username="ada"
                                        password="x"; }};
        """
    )
    assert [len(sections[name]) for name in ("KafkaServer", "internal.KafkaServer")] == [2, 1]
    assert sections["KafkaClient"][0].options == {"username": "ada", "password": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "KafkaClient",
        "KafkaClient {",
        f"KafkaClient {{ {PLAIN} required; }}",
        f"A {{ {PLAIN} required; }}; A {{ }};",
    ],
)
def test_a_wrong_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidJaas):
        parse_jaas_file(text)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"KAFKA_OPTS": "-Xmx1g -Djava.security.auth.login.config=/etc/k.conf"}, "/etc/k.conf"),
        ({"KAFKA_OPTS": "-Djava.security.auth.login.config==file:/etc/k.conf"}, "/etc/k.conf"),
        ({"JAVA_OPTS": "'-Djava.security.auth.login.config=/a b/k.conf'"}, "/a b/k.conf"),
        ({"KAFKA_OPTS": "-Dx='"}, None),
        ({}, None),
    ],
)
def test_the_file_is_named_by_options_of_java(environment: dict[str, str], path: str) -> None:
    assert jaas_file_path(environment) == path
