r"""Reads JAAS lines, in which Kafka's users write their SASL credentials.

    sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
        username="ada" password="secret";

A JAAS file has such lines in named sections: `KafkaClient { ... };` for clients, `KafkaServer` for
brokers, `Client` for a broker's connection to ZooKeeper. Java finds the file by the system property
`java.security.auth.login.config`, which scripts pass in KAFKA_OPTS; `jaas_file_path` finds it there
too. Clients and brokers read both forms with this module. No message of an error, and no `repr`,
shows the value of an option: most of them are passwords.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from odradek.config.values import InvalidValue, in_a_line

CLIENT_SECTION: Final = "KafkaClient"
SERVER_SECTION: Final = "KafkaServer"
ZOOKEEPER_SECTION: Final = "Client"

_FILE_PROPERTY: Final = "java.security.auth.login.config"
# Where scripts and units write options of the Java process, the most particular one first.
_OPTION_VARIABLES: Final = ("KAFKA_OPTS", "JAVA_OPTS", "JAVA_TOOL_OPTIONS")
_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_PUNCTUATION: Final = frozenset("{};=")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_EXAMPLE: Final = 'org.example.LoginModule required username="..." password="...";'


class InvalidJaas(InvalidValue):
    """A JAAS line or file that cannot be read; the message shows no value of an option."""


class LoginModule(NamedTuple):
    """One log-in: the class that Java would load, and its options."""

    name: str
    options: Mapping[str, str]

    @property
    def short_name(self) -> str:
        """Returns the name of the class without its package, such as `PlainLoginModule`."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, options={sorted(self.options)})"


class _Token(NamedTuple):
    text: str
    is_punctuation: bool = False


def parse_jaas_config(text: str) -> LoginModule:
    """Returns the log-in of a `sasl.jaas.config`; there must be exactly one."""
    tokens = _Tokens(text)
    module = _module(tokens)
    if tokens.peek() is not None:
        raise InvalidJaas("must have one login module, and there is more text after its ';'")
    return module


def parse_jaas_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Returns the log-ins of a JAAS file by section."""
    tokens = _Tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while tokens.peek() is not None:
        name = tokens.word("the name of a section, such as KafkaClient")
        tokens.punctuation("{", f"after {in_a_line(name)}")
        modules: list[LoginModule] = []
        while tokens.peek() != _Token("}", is_punctuation=True):
            modules.append(_module(tokens))
        tokens.punctuation("}", f"at the end of {in_a_line(name)}")
        tokens.punctuation(";", f"after the '}}' of {in_a_line(name)}")
        if name in sections:
            raise InvalidJaas(f"has two sections {in_a_line(name)}; each may occur once")
        sections[name] = tuple(modules)
    return sections


def jaas_file_path(environment: Mapping[str, str]) -> str | None:
    """Returns the path of the JAAS file that the variables of a process name, or None."""
    # With `==` Java uses this file instead of, not beside, its default one.
    path = java_property(environment, _FILE_PROPERTY)
    return None if path is None else path.removeprefix("=").removeprefix("file:")


def java_property(environment: Mapping[str, str], name: str) -> str | None:
    """Returns a system property of Java (`-DNAME=VALUE`) that the variables of a process set for
    Java's scripts, or None."""
    beginning = f"-D{name}="
    for variable in _OPTION_VARIABLES:
        try:
            words = shlex.split(environment.get(variable, ""))
        except ValueError:
            # An open quote: Java's scripts would not start with it either.
            words = environment[variable].split()
        for word in reversed(words):
            if word.startswith(beginning):
                return word.removeprefix(beginning)
    return None


def jaas_line(module: str, options: Mapping[str, str]) -> str:
    """Returns a `sasl.jaas.config` with these options, quoted so that it is read as given."""
    quoted = (
        name + '="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for name, value in options.items()
    )
    return " ".join([module, "required", *quoted]) + ";"


def _module(tokens: "_Tokens") -> LoginModule:
    name = tokens.word(f"the class of a login module; write {_EXAMPLE}")
    flag = tokens.word(f"'required' after {in_a_line(name)}")
    if flag.lower() not in _CONTROL_FLAGS:
        raise InvalidJaas(f"must have 'required' after {in_a_line(name)}; write {_EXAMPLE}")
    options: dict[str, str] = {}
    while tokens.peek() != _Token(";", is_punctuation=True):
        option = tokens.word(f"';' at the end of the options of {in_a_line(name)}")
        where = f"after option {in_a_line(option)}"
        tokens.punctuation("=", where)
        options[option] = tokens.word(f'a value {where}, as in {in_a_line(option)}="..."')
    tokens.punctuation(";", "at the end")
    return LoginModule(name, options)


class _Tokens:
    """The words and punctuation of a text, with one token looked at ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._next = next(self._tokens, None)

    def peek(self) -> _Token | None:
        return self._next

    def _take(self) -> _Token | None:
        token, self._next = self._next, next(self._tokens, None)
        return token

    def word(self, expected: str) -> str:
        token = self._take()
        if token is None or token.is_punctuation:
            raise InvalidJaas(f"is not a JAAS line: missing {expected}")
        return token.text

    def punctuation(self, sign: str, where: str) -> None:
        if self._take() != _Token(sign, is_punctuation=True):
            raise InvalidJaas(f"is not a JAAS line: missing '{sign}' {where}")


def _split(text: str) -> Iterator[_Token]:
    """Yields tokens by the rules of Java's StreamTokenizer: comments, quotes and escapes."""
    at, end = 0, len(text)
    while at < end:
        letter = text[at]
        if letter.isspace():
            at += 1
        elif text.startswith("//", at):
            newline = text.find("\n", at)
            at = end if newline < 0 else newline
        elif text.startswith("/*", at):
            closed = text.find("*/", at + 2)
            if closed < 0:
                raise InvalidJaas("is not a JAAS line: a comment /* is not closed by */")
            at = closed + 2
        elif letter in _PUNCTUATION:
            yield _Token(letter, is_punctuation=True)
            at += 1
        elif letter in "\"'":
            word, at = _quoted(text, at)
            yield _Token(word)
        else:
            start = at
            while at < end and not (text[at].isspace() or text[at] in _PUNCTUATION):
                at += 1
            yield _Token(text[start:at])


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Returns the text in quotes that begins at `start`, and the place after it."""
    quote, at, letters = text[start], start + 1, list[str]()
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            digits = text[at : at + 3]
            octal = digits[: next((i for i, d in enumerate(digits) if d not in "01234567"), 3)]
            if octal:
                octal = octal if octal[0] in "0123" else octal[:2]
                letters.append(chr(int(octal, 8)))
                at += len(octal)
                continue
            letters.append(_ESCAPES.get(text[at], text[at]))
        else:
            letters.append(text[at])
        at += 1
    if at >= len(text):
        raise InvalidJaas("is not a JAAS line: a quote is not closed")
    return "".join(letters), at + 1
