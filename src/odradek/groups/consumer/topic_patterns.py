"""Matches regular expressions against topic names, in linear time (KIP-848).

A member may send any expression, and the coordinator must not stall on one. So an expression is
compiled into a non-deterministic automaton, which is turned into a deterministic one state by state
while names are matched. Matching reads a name once and never goes back: `(a+)+b` costs no more than
`a+b`. A name has to match as a whole.

An expression is refused if it is wrong (`topic_pattern_syntax`), too long, becomes too large, or
takes too long to compile or to match. What is counted is the work, not the result: an empty group
that is repeated a million times adds nothing to the automaton, but each repetition is compiled.
`docs/decisions/0023-topic-patterns.md` says why this is not `google-re2`.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from odradek.groups.consumer.topic_pattern_syntax import (
    BIT_OF,
    Begin,
    Characters,
    Either,
    End,
    InvalidPattern,
    Node,
    Parser,
    Repeat,
    SequenceOf,
)

__all__ = ["InvalidPattern", "TopicPattern", "topic_pattern"]

_MAX_PATTERN_LENGTH: Final = 2_000
_MAX_STEPS: Final = 4_000
# How many nodes may be compiled. A node that is repeated is compiled once for each repetition. The
# options of an `Either` are nodes too, so this bounds the number of `following` of all steps.
_MAX_COMPILED_NODES: Final = 10_000
# What the states of the deterministic automaton that are kept may cost in memory: for each state
# its steps and its moves. Beyond that the automaton is built again.
_MAX_STATES_COST: Final = 50_000
_MOVES_COST: Final = 25
# How many steps all names of one call of `matching` may cost together, in addition to one look-up
# for each character: about a tenth of a second.
_MAX_WORK: Final = 1_000_000
_MAX_CACHED_PATTERNS: Final = 64

_MATCH: Final = -1


class _Step(NamedTuple):
    """A state of the non-deterministic automaton. With `bits` it is left by one of these
    characters; otherwise the automaton moves on to each of `following` without a character, if it
    is at the place that `when` names: "always", "begin" or "end"."""

    bits: int
    following: tuple[int, ...]
    when: str = ""


class _Compiler:
    """Makes the steps from the end of the expression to its beginning, so that each step knows the
    ones that follow it."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self._compiled_nodes = 0

    def add(self, step: _Step) -> int:
        if len(self.steps) >= _MAX_STEPS:
            raise InvalidPattern("it is too large")
        self.steps.append(step)
        return len(self.steps) - 1

    def compile(self, node: Node, following: int) -> int:
        """Adds the steps of a node before the step `following`. Returns the first one; this is
        `following` itself if the node is empty."""
        self._compiled_nodes += 1
        if self._compiled_nodes > _MAX_COMPILED_NODES:
            raise InvalidPattern("it is too large")
        if isinstance(node, Characters):
            return self.add(_Step(node.bits, (following,)))
        if isinstance(node, Begin):
            return self.add(_Step(0, (following,), "begin"))
        if isinstance(node, End):
            return self.add(_Step(0, (following,), "end"))
        if isinstance(node, Either):
            options = tuple(self.compile(option, following) for option in node.options)
            return self.add(_Step(0, options, "always"))
        if isinstance(node, SequenceOf):
            for part in reversed(node.parts):
                following = self.compile(part, following)
            return following
        return self._compile_repeat(node, following)

    def _compile_repeat(self, node: Repeat, following: int) -> int:
        if node.max_count is None:
            loop = self.add(_Step(0, (), "always"))
            again = self.compile(node.part, loop)
            self.steps[loop] = _Step(0, (again, following), "always")
            following = loop
        else:
            after = following
            for _ in range(node.max_count - node.min_count):
                once = self.compile(node.part, following)
                following = self.add(_Step(0, (once, after), "always"))
        for _ in range(node.min_count):
            following = self.compile(node.part, following)
        return following


class _State:
    """A state of the deterministic automaton: all steps that may be reached after some characters,
    and the states that follow by one more."""

    __slots__ = ("accepts", "moves", "steps")

    def __init__(self, steps: frozenset[int], *, accepts: bool) -> None:
        self.steps = steps
        self.accepts = accepts
        self.moves: dict[str, _State] = {}


class TopicPattern:
    """A compiled expression. It keeps the states that it has built."""

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidPattern`."""
        if len(pattern) > _MAX_PATTERN_LENGTH:
            raise InvalidPattern(f"it is longer than {_MAX_PATTERN_LENGTH} characters")
        compiler = _Compiler()
        first = compiler.compile(Parser(pattern).parse(), _MATCH)
        self._steps = compiler.steps
        self._states: dict[frozenset[int], _State] = {}
        self._states_cost = 0
        self._work = 0
        self._start = self._state(self._closure((first,), "begin"))

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Returns the names that match. Raises `InvalidPattern` if they cost too much together."""
        self._work = 0
        return frozenset(name for name in names if self._matches(name))

    def _matches(self, name: str) -> bool:
        state = self._start
        for character in name:
            next_state = state.moves.get(character)
            if next_state is None:
                if character not in BIT_OF:
                    return False
                next_state = self._move(state, character)
            if not next_state.steps:
                return False
            state = next_state
        return state.accepts

    def _move(self, state: _State, character: str) -> _State:
        self._add_work(len(state.steps))
        bit = BIT_OF[character]
        following: list[int] = []
        for at in state.steps:
            if at != _MATCH and self._steps[at].bits & bit:
                following += self._steps[at].following
        next_state = self._state(self._closure(following, ""))
        state.moves[character] = next_state
        return next_state

    def _state(self, steps: frozenset[int]) -> _State:
        state = self._states.get(steps)
        if state is None:
            cost = _MOVES_COST + len(steps)
            if self._states_cost + cost > _MAX_STATES_COST and self._states:
                self._states.clear()
                self._states_cost = 0
                self._start.moves.clear()
            state = _State(steps, accepts=_MATCH in self._closure(steps, "end"))
            self._states[steps] = state
            self._states_cost += cost
        return state

    def _closure(self, first: Iterable[int], place: str) -> frozenset[int]:
        """Returns all steps that are reached without a character at this place of the name. Steps
        that wait for the end of the name are kept, to be tried there."""
        found: set[int] = set()
        open_steps = list(first)
        self._add_work(len(open_steps))
        while open_steps:
            at = open_steps.pop()
            if at in found:
                continue
            found.add(at)
            if at == _MATCH or not self._steps[at].when:
                continue
            if self._steps[at].when in ("always", place):
                open_steps += self._steps[at].following
                self._work += len(self._steps[at].following)
        self._add_work(len(found))
        return frozenset(found)

    def _add_work(self, steps: int) -> None:
        self._work += steps
        if self._work > _MAX_WORK:
            raise InvalidPattern("it takes too long to match")


@lru_cache(_MAX_CACHED_PATTERNS)
def topic_pattern(pattern: str) -> TopicPattern:
    """Raises `InvalidPattern`."""
    return TopicPattern(pattern)
