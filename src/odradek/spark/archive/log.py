"""The archive's log on its filesystem: makes entries, and finishes them.

Invariant: an entry counts from the moment its file exists. A run first makes an entry of kind
"claim", then further entries, each with the number after the last one it knows. If a number is
taken, another run has taken over, and this run ends. So of two runs at most one can go on, and
files that the other has staged will never be named by an entry.
"""

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from odradek.spark.archive.entries import LOG as LOG_DIRECTORY
from odradek.spark.archive.entries import (
    SCRATCH,
    STAGING,
    DataFile,
    Entry,
    Gap,
    Kind,
    Offsets,
    State,
    entry_path,
    numbers_in,
    state_path,
)
from odradek.spark.archive.filesystem import Directory, FileAlreadyExists, FilesystemFailed
from odradek.world.clock import Clock, SystemClock

_ENTRIES_BETWEEN_STATES: Final = 32
_ATTEMPTS: Final = 5


class TakenOver(Exception):
    """Another run works on the archive."""


class NoArchive(Exception):
    """The directory holds no archive."""


def load(directory: Directory) -> tuple[State, Entry | None]:
    """Returns the state that the log adds up to, and its last entry."""
    names = [entry.name for entry in directory.list(LOG_DIRECTORY)]
    entries, states = numbers_in(names, ".json"), numbers_in(names, ".state")
    state = State()
    if states:
        path = state_path(states[-1])
        state = State.from_json(directory.read(path), directory.full_path(path))
    last = None
    for number in entries:
        if number > state.number:
            last = _entry(directory, number)
            state.apply(last)
    if last is None and entries:
        last = _entry(directory, entries[-1])
    return state, last


def _entry(directory: Directory, number: int) -> Entry:
    path = entry_path(number)
    return Entry.from_json(directory.read(path), directory.full_path(path))


def load_to_read(directory: Directory) -> State:
    """Returns the state for a reader. If the last entry is unfinished, it is finished first."""
    for attempt in range(_ATTEMPTS):
        state, last = load(directory)
        if last is None:
            raise NoArchive(f"{directory.root} holds no archive: odradek archive --to makes one")
        try:
            finish(directory, last)
        except FilesystemFailed:
            # A run that writes to the archive may meanwhile have merged these very files.
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return state
    raise AssertionError("the last attempt returns or raises")


def finish(directory: Directory, entry: Entry) -> None:
    """Moves an entry's files into place. It is idempotent, even if two processes do it at the same
    time.

    The files that the entry replaces are deleted first, so that no reader of the directory ever
    sees a record twice. All of it is durable before the next entry is made, because nobody finishes
    an entry that is not the last.
    """
    for path in entry.removed:
        if directory.exists(path):
            directory.delete(path)
    for file, staged in entry.added:
        if directory.exists(file.path):
            continue
        try:
            directory.rename(staged, file.path)
        except FilesystemFailed:
            # Another process that finishes the same entry may have been faster.
            if not directory.exists(file.path):
                raise
    changed = [*entry.removed, *(file.path for file, _ in entry.added)]
    directory.sync_directories({path.rpartition("/")[0] for path in changed})


class Log:
    """The log of an archive that this run may change."""

    def __init__(self, directory: Directory, clock: Clock | None = None) -> None:
        """Takes the archive over: another run cannot make entries any more."""
        self.directory = directory
        self.run = uuid4().hex
        self._clock = clock or SystemClock()
        self.state = State()
        self._stagings = 0
        # True from just before an entry is made until its files are in place. Meanwhile the staged
        # files may be the only copies.
        self._is_deciding = False
        for attempt in range(_ATTEMPTS):
            self.state, last = load(directory)
            if last is not None:
                finish(directory, last)
            try:
                self._make("claim")
                break
            except TakenOver:
                # Another run has made an entry meanwhile. It counts, so it is read before the next
                # attempt.
                if attempt == _ATTEMPTS - 1:
                    raise
        self._tidy()

    def _tidy(self) -> None:
        """Deletes files that other runs have staged. After the claim those runs can make no
        entries, and the entries that they made were read and finished before the claim."""
        for directory in (STAGING, SCRATCH):
            for entry in self.directory.list(directory):
                if entry.name != self.run:
                    self.directory.delete(f"{directory}/{entry.name}")

    def staging(self) -> str:
        """Returns a new staging directory for the files of the next entry.

        It is never reused, because tasks of a failed job may still write to the previous one.
        """
        self._stagings += 1
        return f"{STAGING}/{self.run}/{self.state.number + 1}-{self._stagings}"

    def append(
        self,
        added: list[tuple[DataFile, str]],
        offsets: Offsets,
        gaps: list[Gap],
        topic_ids: Mapping[str, str] | None = None,
    ) -> Entry:
        return self._make("append", added=added, offsets=offsets, gaps=gaps, topic_ids=topic_ids)

    def compact(self, added: list[tuple[DataFile, str]], removed: list[str]) -> Entry:
        return self._make("compact", added=added, removed=removed)

    def _make(
        self,
        kind: Kind,
        *,
        added: list[tuple[DataFile, str]] | None = None,
        removed: list[str] | None = None,
        offsets: Offsets | None = None,
        gaps: list[Gap] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> Entry:
        if self._is_deciding:
            raise TakenOver("a step of this run has failed half-way: begin another run")
        number = self.state.number + 1
        entry = Entry(
            number,
            self.run,
            kind,
            self._clock.now_ms(),
            tuple((file.with_number(number), staged) for file, staged in added or ()),
            tuple(removed or ()),
            tuple(sorted((offsets or {}).items())),
            tuple(gaps or ()),
            tuple(sorted((topic_ids or {}).items())),
        )
        scratch = f"{SCRATCH}/{self.run}/{number}"
        self._is_deciding = True
        try:
            self.directory.create_once(entry_path(number), entry.to_json(), scratch=scratch)
        except FileAlreadyExists:
            # A filesystem that retried may refuse the second attempt although its first one
            # succeeded.
            if _entry(self.directory, number).run != self.run:
                self._is_deciding = False
                raise TakenOver(
                    f"another run has taken over the archive in {self.directory.root}: let one"
                    " work at a time; nothing is lost, the other goes on from what is decided"
                ) from None
        finish(self.directory, entry)
        self._is_deciding = False
        self.state.apply(entry)
        self.directory.delete(f"{STAGING}/{self.run}")
        if number % _ENTRIES_BETWEEN_STATES == _ENTRIES_BETWEEN_STATES - 1:
            self._write_state()
        return entry

    def _write_state(self) -> None:
        path = state_path(self.state.number)
        scratch = f"{SCRATCH}/{self.run}/state"
        self.directory.create_once(path, self.state.to_json(), scratch=scratch)

    def close(self) -> None:
        """Deletes this run's staged files, unless an entry may be decided and not yet finished."""
        if self._is_deciding:
            return
        for directory in (STAGING, SCRATCH):
            self.directory.delete(f"{directory}/{self.run}")
