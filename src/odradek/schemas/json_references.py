"""Where the `$ref`s of a JSON Schema lead: within the document, into the schemas that it imports,
or to the schemas of JSON Schema itself. Nothing is ever fetched.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from odradek.schemas.errors import InvalidSchema

# Relative references need a base. Nothing is ever fetched from it, and the name cannot exist.
_LOCAL: Final = "http://schema.invalid/"
_WELL_KNOWN: Final = "json-schema.org/"


class Place(NamedTuple):
    """A schema within a document. `base` is the URI that references in it are relative to."""

    schema: Any
    base: str
    document: Any


class Documents:
    """All documents that a schema can refer to, with their parts that have an identifier."""

    def __init__(self, root: Any, imports: Mapping[str, Any], id_keyword: str) -> None:
        self._id_keyword = id_keyword
        self._by_uri: dict[str, Place] = {}
        self.root = self._add(root, _LOCAL)
        for name, document in imports.items():
            self._add(document, urljoin(_LOCAL, name))
            for uri in (name, urljoin(self.root.base, name)):
                self._by_uri.setdefault(uri, Place(document, urljoin(_LOCAL, name), document))

    def find(self, reference: str, place: Place) -> Place:
        """Returns what a `$ref` leads to, or raises `InvalidSchema`."""
        uri, fragment = urldefrag(reference)
        absolute = urljoin(place.base, reference)
        found = self._by_uri.get(absolute) or self._by_uri.get(absolute.removesuffix("#"))
        if found is not None:
            return found
        for document in self._candidates(uri, place):
            inside = _follow(document, unquote(fragment), self._id_keyword)
            if inside is not None:
                return inside
        raise InvalidSchema(
            f"the JSON schema refers to {reference}, which is not there"
            if not uri
            else f"the JSON schema refers to {reference}, which is not known: name it among the"
            " references"
        )

    def _candidates(self, uri: str, place: Place) -> list[Place]:
        if not uri:
            within = self._by_uri.get(place.base)
            whole = Place(place.document, place.base, place.document)
            return [whole] if within is None else [within, whole]
        found = [
            self._by_uri[name]
            for name in (uri, urljoin(place.base, uri), urljoin(self.root.base, uri))
            if name in self._by_uri
        ]
        absolute = urljoin(place.base, uri)
        if not found and _WELL_KNOWN in absolute:
            known = _well_known(absolute)
            if known is not None:
                found = [self._add(known, absolute)]
        return found

    def _add(self, document: Any, uri: str) -> Place:
        base = uri
        if isinstance(document, dict) and isinstance(document.get(self._id_keyword), str):
            base = urljoin(uri, urldefrag(document[self._id_keyword]).url)
        place = Place(document, base, document)
        self._by_uri.setdefault(uri, place)
        waiting = [Place(document, uri, document)]
        while waiting:
            schema, within, _ = waiting.pop()
            if isinstance(schema, dict):
                within = self._add_names(schema, within, document)
                children = list(schema.values())
            else:
                children = schema if isinstance(schema, list) else []
            waiting += [
                Place(child, within, document)
                for child in children
                if isinstance(child, dict | list)
            ]
        return place

    def _add_names(self, schema: dict[str, Any], base: str, document: Any) -> str:
        """Notes the identifier and the anchors of a schema, and returns its base URI."""
        named = schema.get(self._id_keyword)
        if isinstance(named, str) and "$ref" not in schema:
            absolute = urljoin(base, named)
            if not named.startswith("#"):
                base = urldefrag(absolute).url
            self._by_uri.setdefault(absolute.removesuffix("#"), Place(schema, base, document))
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self._by_uri.setdefault(f"{base}#{anchor}", Place(schema, base, document))
        return base


def _follow(place: Place, pointer: str, id_keyword: str) -> Place | None:
    """Returns what a JSON pointer leads to. `$defs` may also be called `definitions` in a
    document, as registries accept."""
    if pointer.strip("/") == "":
        return place
    if not pointer.startswith("/"):
        return None
    found, base = place.schema, place.base
    for index, step in enumerate(pointer[1:].split("/")):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            if index == 0 and key == "$defs" and key not in found:
                key = "definitions"
            if key not in found:
                return None
            found = found[key]
        elif (
            isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < len("1" * 9)
        ):
            if int(key) >= len(found):
                return None
            found = found[int(key)]
        else:
            return None
        if isinstance(found, dict) and isinstance(found.get(id_keyword), str):
            base = urljoin(base, urldefrag(found[id_keyword]).url)
    return Place(found, base, place.document)


def _well_known(uri: str) -> Any:
    # It has no types, and hardly any schema needs it.
    registry = import_module("jsonschema_specifications").REGISTRY
    bare = uri.replace("https:", "http:")
    for known in (bare, f"{bare}#", bare.replace("http:", "https:")):
        if known in registry:
            return registry.contents(known)
    return None
