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

__all__ = ["InvalidPattern", "TopicPattern", "compile_pattern"]

_MAX_PATTERN_LENGTH: Final = 2_000
_MAX_NFA_STATES: Final = 4_000
# How many nodes may be compiled. A node that is repeated is compiled once for each repetition. The
# options of an `Either` are nodes too, so this bounds the number of `following` of all NFA states.
_MAX_COMPILED_NODES: Final = 10_000
# The memory for cached states of the deterministic automaton, in elements: for each state its NFA
# states and its moves. When it is used up, the cache is cleared.
_MAX_STATES_COST: Final = 50_000
_MOVES_COST: Final = 25
# How much work one call of `matching` may do, in NFA states that are visited, in addition to one
# look-up for each character of the names: about a tenth of a second.
_MAX_WORK: Final = 1_000_000
_MAX_CACHED_PATTERNS: Final = 64

_MATCH: Final = -1


class _NfaState(NamedTuple):
    """A state of the non-deterministic automaton, with its transitions to the states `following`.

    Either a character of the set `bits` leads to `following`; then `when` is empty. Or `bits` is 0,
    and no character is read: the transition is possible always, or only at the begin or at the end
    of the name (`when` is "always", "begin" or "end")."""

    bits: int
    following: tuple[int, ...]
    when: str = ""


class _Compiler:
    """Makes the states from the end of the expression to its beginning, so that each state knows
    the ones that follow it."""

    def __init__(self) -> None:
        self.nfa_states: list[_NfaState] = []
        self._compiled_nodes = 0

    def add(self, state: _NfaState) -> int:
        if len(self.nfa_states) >= _MAX_NFA_STATES:
            raise InvalidPattern("it is too large")
        self.nfa_states.append(state)
        return len(self.nfa_states) - 1

    def compile(self, node: Node, following: int) -> int:
        """Adds the states of a node before the state `following`. Returns the first one; this is
        `following` itself if the node is empty."""
        self._compiled_nodes += 1
        if self._compiled_nodes > _MAX_COMPILED_NODES:
            raise InvalidPattern("it is too large")
        if isinstance(node, Characters):
            return self.add(_NfaState(node.bits, (following,)))
        if isinstance(node, Begin):
            return self.add(_NfaState(0, (following,), "begin"))
        if isinstance(node, End):
            return self.add(_NfaState(0, (following,), "end"))
        if isinstance(node, Either):
            options = tuple(self.compile(option, following) for option in node.options)
            return self.add(_NfaState(0, options, "always"))
        if isinstance(node, SequenceOf):
            for part in reversed(node.parts):
                following = self.compile(part, following)
            return following
        return self._compile_repeat(node, following)

    def _compile_repeat(self, node: Repeat, following: int) -> int:
        if node.max_count is None:
            loop = self.add(_NfaState(0, (), "always"))
            again = self.compile(node.part, loop)
            self.nfa_states[loop] = _NfaState(0, (again, following), "always")
            following = loop
        else:
            end = following
            for _ in range(node.max_count - node.min_count):
                once = self.compile(node.part, following)
                following = self.add(_NfaState(0, (once, end), "always"))
        for _ in range(node.min_count):
            following = self.compile(node.part, following)
        return following


class _DfaState:
    """A state of the deterministic automaton: all NFA states that may be reached after some
    characters. `moves` has the next state for each character that was looked up before."""

    __slots__ = ("accepts", "moves", "nfa_states")

    def __init__(self, nfa_states: frozenset[int], *, accepts: bool) -> None:
        self.nfa_states = nfa_states
        self.accepts = accepts
        self.moves: dict[str, _DfaState] = {}


class TopicPattern:
    """A compiled expression. It keeps the states that it has built."""

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidPattern`."""
        if len(pattern) > _MAX_PATTERN_LENGTH:
            raise InvalidPattern(f"it is longer than {_MAX_PATTERN_LENGTH} characters")
        compiler = _Compiler()
        first = compiler.compile(Parser(pattern).parse(), _MATCH)
        self._nfa_states = compiler.nfa_states
        self._states: dict[frozenset[int], _DfaState] = {}
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
            if not next_state.nfa_states:
                return False
            state = next_state
        return state.accepts

    def _move(self, state: _DfaState, character: str) -> _DfaState:
        self._add_work(len(state.nfa_states))
        bit = BIT_OF[character]
        following: list[int] = []
        for index in state.nfa_states:
            if index != _MATCH and self._nfa_states[index].bits & bit:
                following += self._nfa_states[index].following
        next_state = self._state(self._closure(following, ""))
        state.moves[character] = next_state
        return next_state

    def _state(self, nfa_states: frozenset[int]) -> _DfaState:
        state = self._states.get(nfa_states)
        if state is None:
            cost = _MOVES_COST + len(nfa_states)
            if self._states_cost + cost > _MAX_STATES_COST and self._states:
                self._states.clear()
                self._states_cost = 0
                self._start.moves.clear()
            state = _DfaState(nfa_states, accepts=_MATCH in self._closure(nfa_states, "end"))
            self._states[nfa_states] = state
            self._states_cost += cost
        return state

    def _closure(self, first: Iterable[int], place: str) -> frozenset[int]:
        """Returns all NFA states that are reached without reading a character, at the begin of the
        name, at its end, or in between (`place` is empty). States with an "end" transition stay in
        the set: `_state` follows them to find out whether a name may end here."""
        closure: set[int] = set()
        pending = list(first)
        self._add_work(len(pending))
        while pending:
            index = pending.pop()
            if index in closure:
                continue
            closure.add(index)
            if index == _MATCH:
                continue
            state = self._nfa_states[index]
            if state.when and state.when in ("always", place):
                pending += state.following
                self._work += len(state.following)
        self._add_work(len(closure))
        return frozenset(closure)

    def _add_work(self, visited_states: int) -> None:
        self._work += visited_states
        if self._work > _MAX_WORK:
            raise InvalidPattern("it takes too long to match")


@lru_cache(_MAX_CACHED_PATTERNS)
def compile_pattern(pattern: str) -> TopicPattern:
    """Returns the compiled expression, from a cache. Raises `InvalidPattern`."""
    return TopicPattern(pattern)
