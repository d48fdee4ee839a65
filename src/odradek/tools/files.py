"""Reads the files that a user names: text, and JSON with a list of entries.

Whatever is wrong with a file, the command ends with one line that names it. An `OSError` names the
file too (`tools.failures`), so it passes unchanged.
"""

from typing import Any, Final

from odradek.tools.failures import CommandFailed

# How many names of a directory a misspelt one is compared with.
_MAX_NAMES: Final = 1000


def read_text(path: str) -> str:
    """Returns the text of a file in UTF-8, without the byte order mark that Windows writes."""
    from odradek.world.disk import OsDisk

    content = OsDisk().read(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is not text in UTF-8; is it the right file?") from None
    if "\0" in text:
        raise CommandFailed(f"{path} is a binary file, not text; is it the right file?")
    return text


def not_permitted(path: str) -> str | None:
    """Returns the line for a file or a directory that this user may not read, or may not even look
    for. Returns None if it can be read, or is not there."""
    import os

    place = os.path.abspath(path)
    try:
        os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK))
    except PermissionError:
        while not _is_there(place):
            place = os.path.dirname(place)
        return f"cannot read {place}: permission denied; {_whose(place)}"
    except OSError:
        pass
    return None


def _is_there(path: str) -> bool:
    import os

    try:
        os.stat(path)
    except PermissionError:
        return False
    return True


def _whose(path: str) -> str:
    """Returns what to do about a file of another user."""
    import os
    import pwd

    number = os.stat(path).st_uid
    if number == os.geteuid():
        return f"let its owner read it: chmod u+rX {path}"
    try:
        owner = pwd.getpwuid(number).pw_name
    except KeyError:
        owner = f"#{number}"
    return f"it belongs to {owner}: do this as {owner} (sudo -u {owner}), or let this user read it"


def no_such_file(path: str) -> str:
    """Returns the line for a file that does not exist, or that this user may not look for: where it
    was looked for, and the name that was perhaps meant."""
    import os

    from odradek.config.spelling import nearest

    if (line := not_permitted(path)) is not None:
        return line
    directory, name = os.path.split(path)
    whole = os.path.abspath(directory)
    if (line := not_permitted(whole)) is not None:
        return line
    if not os.path.isdir(whole):
        return f"there is no file {path}, because there is no directory {whole}"
    near = nearest(name, os.listdir(whole)[:_MAX_NAMES])
    hint = "" if near is None else f"; did you mean {os.path.join(directory, near)}?"
    where = "" if os.path.isabs(path) else f" in {whole}"
    return f"there is no file {path}{where}{hint}"


def cannot_use(path: str, failure: OSError, reason: str) -> str:
    """Returns the line for a file or a directory that is there and cannot be read or written."""

    if isinstance(failure, IsADirectoryError):
        return f"{path} is a directory; name a file"
    if isinstance(failure, NotADirectoryError | FileExistsError):
        file = _file_on_the_way(path)
        if file is not None:
            return f"{file} is a file, and not a directory; name another place"
        return f"{path} exists already; name another"
    if isinstance(failure, PermissionError):
        return not_permitted(path) or (
            f"cannot write to {path}: permission denied; let this user write there, or name another"
        )
    return f"{path}: {reason}"


def cannot_create(failure: OSError, example: str) -> str:
    """Returns the line for files or directories that a tool would make and cannot. `example` is a
    place where it can, and what it is for."""
    import os

    place = str(failure.filename)
    if isinstance(failure, FileExistsError | NotADirectoryError | IsADirectoryError):
        return cannot_use(place, failure, str(failure.strerror))
    reason = str(failure.strerror)
    if isinstance(failure, FileNotFoundError):
        reason = f"{os.path.dirname(place)} takes no new files"
    return (
        f"cannot write {place}: {reason}; name a place that this user may write, such as {example}"
    )


def cannot_write_more(failure: OSError, reason: str) -> str:
    """Returns the line for an error of an open file, whose name nobody knows any more."""
    import errno

    if failure.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
        return f"the output cannot be written: {reason}; make room, or write it elsewhere"
    return reason


def _file_on_the_way(path: str) -> str | None:
    """Returns the file that stands where a directory of the path should be, if there is one."""
    import os

    while path:
        if os.path.isfile(path):
            return path
        shorter = os.path.dirname(path)
        if shorter == path:
            break
        path = shorter
    return None


def json_entries(text: str, source: str, key: str, example: str) -> list[dict[str, Any]]:
    """Returns the entries of Kafka's JSON files: `{"version": 1, key: [{...}, ...]}`.

    `source` is the file's name. `example` is a whole file, which the message shows if this one
    cannot be read.
    """
    import json

    try:
        content = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"{source} is not JSON: {error}; write {example}") from None
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise CommandFailed(f'{source} has no "{key}"; write {example}')
    if content.get("version", 1) != 1:
        raise CommandFailed(f"{source} has version {content['version']}; only 1 is known")
    for entry in entries:
        if not isinstance(entry, dict):
            raise CommandFailed(f'{source}: {entry!r} is not an entry of "{key}"; write {example}')
    return entries


def entry_text(entry: dict[str, Any], key: str, source: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise CommandFailed(f'{source}: "{key}" is {_found(entry, key)}, where a name is needed')
    return value


def entry_number(entry: dict[str, Any], key: str, source: str) -> int:
    """Returns a whole number; as in Kafka, it may be written as text."""
    value = entry.get(key)
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CommandFailed(
            f'{source}: "{key}" is {_found(entry, key)}, where a whole number is needed'
        )
    return value


def _found(entry: dict[str, Any], key: str) -> str:
    import json

    return json.dumps(entry[key]) if key in entry else f"missing in {json.dumps(entry)[:100]}"
