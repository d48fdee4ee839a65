"""Regular expressions over topic names, in Kafka's syntax (RE2) and in linear time.

Members may send any expression, and the coordinator must not stall on one. So the expression
is translated into an automaton that reads a name once, without going back: `(a+)+b` costs no
more than `a+b`. Its states are made when they are first met. A name has to match as a whole.

Names consist of 65 characters, so a set of characters is a number with a bit for each of
them; what cannot stand in a name matches nothing.

Not done: word boundaries (`\\b`, `\\B`), and Unicode scripts but Latin. They are refused, as is
what is wrong, too long, or grows too large.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

_NAMES_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
_BIT: Final = {character: 1 << at for at, character in enumerate(_NAMES_CHARACTERS)}
_ANY: Final = (1 << len(_NAMES_CHARACTERS)) - 1

_LONGEST_PATTERN: Final = 2_000
_MAX_STEPS: Final = 4_000
_MAX_REPETITIONS: Final = 1_000
_DEEPEST: Final = 100
# States of the automaton that are remembered; then it starts to learn again.
_MAX_STATES: Final = 2_000
# How many steps all names together may cost: about a tenth of a second.
_MAX_WORK: Final = 400_000


class InvalidPattern(ValueError):
    """The message says what is wrong, for the one who wrote the expression."""


def _set_of(characters: Iterable[str]) -> int:
    bits = 0
    for character in characters:
        bits |= _BIT.get(character, 0)
    return bits


def _category(prefix: str) -> int:
    return _set_of(
        each for each in _NAMES_CHARACTERS if unicodedata.category(each).startswith(prefix)
    )


_DIGITS: Final = _set_of("0123456789")
_LOWER: Final = _category("Ll")
_UPPER: Final = _category("Lu")
_LETTERS: Final = _LOWER | _UPPER
_WORD: Final = _LETTERS | _DIGITS | _BIT["_"]
_HEXADECIMAL: Final = _set_of("0123456789abcdefABCDEF")
_PUNCTUATION: Final = _set_of("._-")

_PERL: Final = {"d": _DIGITS, "w": _WORD, "s": 0, "D": _ANY ^ _DIGITS, "W": _ANY ^ _WORD, "S": _ANY}
_POSIX: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": _ANY,
    "blank": 0,
    "cntrl": 0,
    "digit": _DIGITS,
    "graph": _ANY,
    "lower": _LOWER,
    "print": _ANY,
    "punct": _PUNCTUATION,
    "space": 0,
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _HEXADECIMAL,
}
_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


# The parsed expression


class _Characters(NamedTuple):
    bits: int


class _Begin(NamedTuple):
    pass


class _End(NamedTuple):
    pass


class _Sequence(NamedTuple):
    parts: "tuple[_Node, ...]"


class _Either(NamedTuple):
    options: "tuple[_Node, ...]"


class _Repeat(NamedTuple):
    part: "_Node"
    least: int
    most: int | None


_Node = _Characters | _Begin | _End | _Sequence | _Either | _Repeat


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._ignore_case = False

    def parse(self) -> _Node:
        node = self._either()
        if self._at < len(self._text):
            raise InvalidPattern("unexpected )")
        return node

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise InvalidPattern("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str) -> str:
        position = self._text.find(end, self._at)
        if position < 0:
            raise InvalidPattern(f"missing {end}")
        found, self._at = self._text[self._at : position], position + len(end)
        return found

    def _either(self) -> _Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Either(tuple(options))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._take("\\Q"):
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at : end if end >= 0 else None]
                self._at = len(self._text) if end < 0 else end + 2
                parts += [self._characters(_set_of(each)) for each in quoted]
                continue
            atom = self._atom()
            if atom is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _characters(self, bits: int) -> _Characters:
        if self._ignore_case:
            bits = _both_cases(bits)
        return _Characters(bits)

    def _atom(self) -> _Node | None:
        """None for what only sets flags."""
        character = self._next()
        if character in "*+?":
            raise InvalidPattern(f"nothing before {character} to repeat")
        if character == "(":
            return self._group()
        if character == "\\":
            return self._escape()
        if character in "^$":
            return _Begin() if character == "^" else _End()
        if character == "[":
            return self._characters(self._class())
        return self._characters(_ANY if character == "." else _BIT.get(character, 0))

    def _group(self) -> _Node | None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidPattern(f"more than {_DEEPEST} groups within each other")
        ignores_case = self._ignore_case
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name = self._until(">")
                if not name.isidentifier():
                    raise InvalidPattern("a group's name is letters, digits and _")
            elif not self._flags():
                self._depth -= 1
                return None
        node = self._either()
        if not self._take(")"):
            raise InvalidPattern("missing )")
        self._depth -= 1
        self._ignore_case = ignores_case
        return node

    def _flags(self) -> bool:
        """Whether a group follows them; if not they hold to the end of the group they are in."""
        value = True
        while True:
            flag = self._next()
            if flag == "-" and value:
                value = False
            elif flag == "i":
                self._ignore_case = value
            elif flag in "msU":
                continue  # Names have no lines, and which match is found does not matter.
            elif flag in ":)":
                return flag == ":"
            else:
                raise InvalidPattern(f"(?{flag} is not supported")

    def _repeated(self, atom: _Node) -> _Node:
        count = 0
        while self._at < len(self._text):
            if self._take("*"):
                least, most = 0, None
            elif self._take("+"):
                least, most = 1, None
            elif self._take("?"):
                least, most = 0, 1
            else:
                counted = self._counted()
                if counted is None:
                    return atom
                least, most = counted
            self._take("?")  # As few as possible: whether it matches stays the same.
            count += 1
            if count > 1:
                raise InvalidPattern("one repetition after another")
            atom = _Repeat(atom, least, most)
        return atom

    def _counted(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,5}`; a brace that is none of these stands for itself."""
        end = self._text.find("}", self._at)
        if end < 0 or self._text[self._at] != "{":
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not _is_number(least) or not (most == "" or _is_number(most)):
            return None
        self._at = end + 1
        lowest = int(least)
        highest = lowest if not comma else int(most) if most else None
        if max(lowest, highest or 0) > _MAX_REPETITIONS or (
            highest is not None and highest < lowest
        ):
            raise InvalidPattern("a bad number of repetitions")
        return lowest, highest

    def _escape(self) -> _Node:
        if self._at < len(self._text) and self._text[self._at] in "Az":
            return _Begin() if self._next() == "A" else _End()
        return self._characters(self._escaped_set())

    def _escaped_set(self) -> int:
        """What follows a backslash, as a set of characters."""
        character = self._next()
        if character in _PERL:
            return _PERL[character]
        if character in "pP":
            return self._category(negated=character == "P")
        if character in _CONTROL:
            return 0
        if character == "x":
            digits = self._until("}") if self._take("{") else self._next() + self._next()
            return _BIT.get(_character(digits, 16), 0)
        if character == "0":
            digits = "0"
            while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
                digits += self._next()
            return _BIT.get(_character(digits, 8), 0)
        if character.isalnum():
            raise InvalidPattern(f"\\{character} is not supported")
        return _BIT.get(character, 0)

    def _category(self, *, negated: bool) -> int:
        name = self._until("}") if self._take("{") else self._next()
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        if name == "Any":
            bits = _ANY
        elif name == "Latin":
            bits = _LETTERS
        elif name[:1] in ("L", "M", "N", "P", "S", "Z", "C") and len(name) <= 2:
            bits = _category(name)
        else:
            raise InvalidPattern(f"\\p{{{name}}} is not supported")
        return _ANY ^ bits if negated else bits

    def _class(self) -> int:
        negated = self._take("^")
        bits = 0
        is_first = True
        while is_first or not self._take("]"):
            is_first = False
            if self._take("[:"):
                bits |= _posix(self._until(":]"))
                continue
            bits |= self._class_range()
        if self._ignore_case:
            bits = _both_cases(bits)
        return _ANY ^ bits if negated else bits

    def _class_range(self) -> int:
        first = self._next()
        if first == "\\":
            following = self._text[self._at : self._at + 1]
            if following in _PERL or following in ("p", "P", "x", "0", *_CONTROL):
                return self._escaped_set()
            first = self._next()
            if first.isalnum():
                raise InvalidPattern(f"\\{first} is not supported")
        if self._text[self._at : self._at + 1] != "-":
            return _BIT.get(first, 0)
        if self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return _BIT.get(first, 0)
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._next()
        if last < first:
            raise InvalidPattern(f"{first}-{last} is no range")
        return _set_of(each for each in _NAMES_CHARACTERS if first <= each <= last)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5


def _character(digits: str, radix: int) -> str:
    try:
        return chr(int(digits, radix))
    except (ValueError, OverflowError):
        raise InvalidPattern(f"{digits} is no character") from None


def _posix(name: str) -> int:
    negated = name.startswith("^")
    bits = _POSIX.get(name[negated:])
    if bits is None:
        raise InvalidPattern(f"[:{name}:] is not supported")
    return _ANY ^ bits if negated else bits


def _both_cases(bits: int) -> int:
    return bits | _set_of(
        each.swapcase() for each in _NAMES_CHARACTERS if bits & _BIT[each] and each.isalpha()
    )


# The automaton

_MATCH: Final = -1


class _Step(NamedTuple):
    """Where the automaton may be. With `bits` it goes on by one of these characters; without,
    it goes on to each of `following` at once, if `when` (a place) allows it."""

    bits: int
    following: tuple[int, ...]
    when: str = ""


class _Compiler:
    """Steps are made from the end to the beginning: each knows what follows it."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def add(self, step: _Step) -> int:
        if len(self.steps) >= _MAX_STEPS:
            raise InvalidPattern("it is too large")
        self.steps.append(step)
        return len(self.steps) - 1

    def compile(self, node: _Node, following: int) -> int:
        if isinstance(node, _Characters):
            return self.add(_Step(node.bits, (following,)))
        if isinstance(node, _Begin):
            return self.add(_Step(0, (following,), "begin"))
        if isinstance(node, _End):
            return self.add(_Step(0, (following,), "end"))
        if isinstance(node, _Either):
            options = tuple(self.compile(option, following) for option in node.options)
            return self.add(_Step(0, options, "always"))
        if isinstance(node, _Sequence):
            for part in reversed(node.parts):
                following = self.compile(part, following)
            return following
        return self._compile_repeat(node, following)

    def _compile_repeat(self, node: _Repeat, following: int) -> int:
        if node.most is None:
            loop = self.add(_Step(0, (), "always"))
            again = self.compile(node.part, loop)
            self.steps[loop] = _Step(0, (again, following), "always")
            following = loop
        else:
            after = following
            for _ in range(node.most - node.least):
                once = self.compile(node.part, following)
                following = self.add(_Step(0, (once, after), "always"))
        for _ in range(node.least):
            following = self.compile(node.part, following)
        return following


class _State:
    """All steps the automaton may be at after some characters, and where it goes from there."""

    __slots__ = ("accepts", "moves", "steps")

    def __init__(self, steps: frozenset[int], *, accepts: bool) -> None:
        self.steps = steps
        self.accepts = accepts
        self.moves: dict[str, _State] = {}


class TopicPattern:
    """One expression, ready to be matched; it remembers the states it has met."""

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidPattern`."""
        if len(pattern) > _LONGEST_PATTERN:
            raise InvalidPattern(f"it is longer than {_LONGEST_PATTERN} characters")
        compiler = _Compiler()
        first = compiler.compile(_Parser(pattern).parse(), _MATCH)
        self._steps = compiler.steps
        self._states: dict[frozenset[int], _State] = {}
        self._work = 0
        self._start = self._state(self._closure((first,), "begin"))

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Raises `InvalidPattern` if the names together cost too much."""
        self._work = 0
        return frozenset(name for name in names if self.matches(name))

    def matches(self, name: str) -> bool:
        state = self._start
        for character in name:
            after = state.moves.get(character)
            if after is None:
                after = self._move(state, character)
            if not after.steps:
                return False
            state = after
        return state.accepts

    def _move(self, state: _State, character: str) -> _State:
        bit = _BIT.get(character, 0)
        following: list[int] = []
        for at in state.steps:
            if at != _MATCH and self._steps[at].bits & bit:
                following += self._steps[at].following
        after = self._state(self._closure(following, ""))
        state.moves[character] = after
        return after

    def _state(self, steps: frozenset[int]) -> _State:
        known = self._states.get(steps)
        if known is None:
            if len(self._states) >= _MAX_STATES:
                self._states.clear()
                self._start.moves.clear()
            known = _State(steps, accepts=_MATCH in self._closure(steps, "end"))
            self._states[steps] = known
        return known

    def _closure(self, first: Iterable[int], place: str) -> frozenset[int]:
        """All steps that are reached without a character, at this place of the name. Steps that
        wait for the end stay, to be tried there."""
        found: set[int] = set()
        open_steps = list(first)
        self._work += len(open_steps)
        while open_steps:
            at = open_steps.pop()
            if at in found:
                continue
            found.add(at)
            if at == _MATCH or not self._steps[at].when:
                continue
            if self._steps[at].when in ("always", place):
                open_steps += self._steps[at].following
        self._work += len(found)
        if self._work > _MAX_WORK:
            raise InvalidPattern("it takes too long to match")
        return frozenset(found)


@lru_cache(maxsize=256)
def topic_pattern(pattern: str) -> TopicPattern:
    """Raises `InvalidPattern`."""
    return TopicPattern(pattern)
