"""Writes a module of classes as Python text that passes `mypy --strict` and ruff.

Classes take their values by keyword, so that fields with defaults may come first, as in schemas.
"""

import json
import textwrap
from collections.abc import Callable, Iterator
from typing import Final

from odradek.schemas.classes.model import (
    Alias,
    Attribute,
    EnumClass,
    Hint,
    Imports,
    Module,
    RecordClass,
    Style,
)

_WIDTH: Final = 88
_HEADS: Final[dict[Style, tuple[str, str, tuple[tuple[str, str], ...]]]] = {
    "dataclass": ("@dataclass(kw_only=True, slots=True)", "", (("dataclasses", "dataclass"),)),
    "pydantic": ("", "(BaseModel)", (("pydantic", "BaseModel"),)),
    "attrs": ("@define(kw_only=True)", "", (("attrs", "define"),)),
}
_THIRD: Final = frozenset({"attrs", "pydantic"})


def write(module: Module, style: Style, title: str) -> str:
    """Returns the text of a module. `title` says what it was made from."""
    writer = _Writer(style)
    blocks = [writer.enum(enum) for enum in module.enums]
    blocks += [writer.record(record) for record in module.records]
    blocks += [[writer.alias(alias)] for alias in module.aliases]
    head = [_docstring(title, ""), "", "from __future__ import annotations", ""]
    imports = list(_import_lines(writer.imports))
    text = "\n".join([*head, *imports])
    if not module.enums and not module.records:
        text = text.removesuffix("\n") + "\n\n"
        return text + "\n\n\n".join("\n".join(block) for block in blocks) + "\n"
    return text + "".join("\n\n\n" + "\n".join(block) for block in blocks) + "\n"


class _Writer:
    def __init__(self, style: Style) -> None:
        self._style: Style = style
        self.imports: Imports = frozenset()

    def _use(self, hint: Hint) -> str:
        self.imports |= hint.imports
        return hint.text

    def _import(self, module: str, name: str) -> str:
        self.imports |= {(module, name)}
        return name

    def alias(self, alias: Alias) -> str:
        kind = self._import("typing", "TypeAlias")
        return f"{alias.name}: {kind} = {_quoted(self._use(alias.hint))}"

    def enum(self, enum: EnumClass) -> list[str]:
        are_numbers = all(isinstance(value, int) for _, value in enum.members)
        base = self._import("enum", "IntEnum" if are_numbers else "StrEnum")
        lines = [f"class {enum.name}({base}):"]
        lines += _body_docstring(enum.doc)
        lines += [
            f"    {name} = {_quoted(value) if isinstance(value, str) else value}"
            for name, value in enum.members
        ]
        return lines

    def record(self, record: RecordClass) -> list[str]:
        decorator, base, imports = _HEADS[self._style]
        self.imports |= set(imports)
        lines = [decorator] if decorator else []
        lines += [f"class {record.name}{base}:", *_body_docstring(record.doc)]
        if record.namespace:
            kind = self._import("typing", "ClassVar")
            lines += [f"    __avro_namespace__: {kind}[str] = {_quoted(record.namespace)}", ""]
        if self._style == "pydantic" and any(each.source_name for each in record.attributes):
            config = self._import("pydantic", "ConfigDict")
            lines += [f"    model_config = {config}(populate_by_name=True)", ""]
        for attribute in record.attributes:
            lines += self._attribute(attribute)
        if lines[-1].endswith(":"):
            lines.append("    pass")
        return lines if lines[-1] else lines[:-1]

    def _attribute(self, attribute: Attribute) -> list[str]:
        declared = f"    {attribute.name}: {self._use(attribute.hint)}"
        value = self._default(attribute)
        line = f"{declared} = {value}" if value else declared
        if len(line) > _WIDTH and value.endswith(")") and "(" in value:
            call, _, inside = value.partition("(")
            line = f"{declared} = {call}(\n        {inside[:-1]}\n    )"
        return [line, *_body_docstring(attribute.doc)]

    def _default(self, attribute: Attribute) -> str:
        """Returns what stands after the equals sign, or nothing."""
        default = attribute.default
        value = "" if default is None else self._use(default.value)
        arguments = []
        if default is not None and default.is_made:
            is_plain = value in {"list", "dict"}
            factory = value if is_plain else f"lambda: {value}"
            word = "factory" if self._style == "attrs" else "default_factory"
            arguments.append(f"{word}={factory}")
        elif value and attribute.source_name:
            arguments.append(f"default={value}")
        elif value:
            return value
        if attribute.source_name:
            name = _quoted(attribute.source_name)
            is_pydantic = self._style == "pydantic"
            arguments.append(f"alias={name}" if is_pydantic else f'metadata={{"name": {name}}}')
        if not arguments:
            return ""
        call = {
            "dataclass": ("dataclasses", "field"),
            "pydantic": ("pydantic", "Field"),
            "attrs": ("attrs", "field"),
        }[self._style]
        return f"{self._import(*call)}({', '.join(arguments)})"


def _import_lines(imports: Imports) -> Iterator[str]:
    by_module: dict[str, list[str]] = {}
    # ruff's order: what is imported as a whole first.
    for module, name in sorted(imports, key=lambda one: (one[1] != "", one)):
        by_module.setdefault(module, []).append(name)
    groups: tuple[Callable[[str], bool], ...] = (
        lambda module: module not in _THIRD,
        lambda module: module in _THIRD,
    )
    is_first = True
    for belongs in groups:
        modules = [module for module in by_module if belongs(module)]
        if modules and not is_first:
            yield ""
        for module in modules:
            is_first = False
            names = sorted(filter(None, by_module[module]), key=_import_order)
            yield f"from {module} import {', '.join(names)}" if names else f"import {module}"


def _import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts them."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name)


def _quoted(text: str) -> str:
    """Returns a string literal with double quotes, where that is possible."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def _body_docstring(doc: str) -> list[str]:
    if not doc.strip():
        return []
    return [_docstring(doc, "    "), ""]


def _docstring(text: str, indent: str) -> str:
    """Returns a docstring, wrapped, whatever the text has in it."""
    cleaned = "".join(
        letter if letter.isprintable() or letter == "\n" else " " for letter in text
    ).replace("\\", "\\\\")
    cleaned = cleaned.replace('"""', "'''").strip()
    paragraphs = [
        textwrap.fill(" ".join(paragraph.split()), _WIDTH - len(indent) - 6, break_on_hyphens=False)
        for paragraph in cleaned.split("\n\n")
    ]
    joined = "\n\n".join(paragraphs)
    ending = "\n" if "\n" in joined or joined.endswith(('"', "\\")) else ""
    lines = f'"""{joined}{ending}"""'.split("\n")
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)
