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


def no_such_file(path: str) -> str:
    """Returns the line for a file that does not exist: where it was looked for, and the name that
    was perhaps meant."""
    import os

    from odradek.config.spelling import nearest

    directory, name = os.path.split(path)
    whole = os.path.abspath(directory)
    if not os.path.isdir(whole):
        return f"there is no file {path}, because there is no directory {whole}"
    near = nearest(name, os.listdir(whole)[:_MAX_NAMES])
    hint = "" if near is None else f"; did you mean {os.path.join(directory, near)}?"
    where = "" if os.path.isabs(path) else f" in {whole}"
    return f"there is no file {path}{where}{hint}"


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
