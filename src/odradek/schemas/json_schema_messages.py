"""What each difference of two JSON Schemas means, in words."""

from typing import Final

_WHOLE: Final = {
    "TYPE_CHANGED": "The type at path 'PATH' is not the same in the {reader} and the {writer}"
    " schema",
    "TYPE_NARROWED": "The type at path 'PATH' is integer in the {reader} schema and number in the"
    " {writer} schema",
    "SCHEMA_ADDED": "The {reader} schema has a schema at path 'PATH', where the {writer} schema has"
    " none",
    "ENUM_ARRAY_NARROWED": "The values at path 'PATH' of the {reader} schema are fewer than those"
    " of the {writer} schema",
    "ENUM_ARRAY_CHANGED": "The values at path 'PATH' of the {reader} schema lack some of the"
    " {writer} schema",
    "COMBINED_TYPE_CHANGED": "The {reader} and the {writer} schema combine their schemas at path"
    " 'PATH' in different ways",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": "The schemas that are combined at path 'PATH' of the"
    " {reader} schema do not accept all of what those of the {writer} schema accept",
    "PRODUCT_TYPE_EXTENDED": "allOf at path 'PATH' has more schemas in the {reader} schema than in"
    " the {writer} schema",
    "SUM_TYPE_NARROWED": "The alternatives at path 'PATH' are fewer in the {reader} schema than in"
    " the {writer} schema",
    "NOT_TYPE_EXTENDED": "'not' at path 'PATH' of the {reader} schema excludes more than that of"
    " the {writer} schema",
    "REQUIRED_ATTRIBUTE_ADDED": "The property at path 'PATH' is required in the {reader} schema,"
    " has no default, and is optional in the {writer} schema",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "The {reader} schema requires the property"
    " at path 'PATH', which has no default and is not in the {writer} schema",
    "SCHEMA_TOO_COMPLEX": "The {reader} and the {writer} schema have too many alternatives to"
    " compare all of them",
}
_ENDINGS: Final = {
    "_ADDED_TO_OPEN_CONTENT_MODEL": "The {reader} schema has a property or item at path 'PATH' that"
    " the {writer} schema does not name, but allows with any value, because its content model is"
    " open",
    "_REMOVED_FROM_CLOSED_CONTENT_MODEL": "The {reader} schema has a closed content model and not"
    " the property or item at path 'PATH' of the {writer} schema",
    "_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": "The {reader} schema has a property or"
    " item at path 'PATH' that does not accept what the {writer} schema allows there without naming"
    " it",
    "_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": "The {writer} schema has a property or"
    " item at path 'PATH' that is not in the {reader} schema, whose rules for others do not accept"
    " it",
    "_REMOVED": "The {reader} schema allows nothing else at path 'PATH', the {writer} schema does",
    "_NARROWED": "The {reader} schema accepts less at path 'PATH' than the {writer} schema",
    "_ADDED": "The keyword at path 'PATH' of the {reader} schema is not in the {writer} schema",
    "_INCREASED": "The value at path 'PATH' is greater in the {reader} schema than in the {writer}"
    " schema",
    "_EXPANDED": "The value at path 'PATH' is greater in the {reader} schema than in the {writer}"
    " schema",
    "_DECREASED": "The value at path 'PATH' is less in the {reader} schema than in the {writer}"
    " schema",
    "_EXTENDED": "The list at path 'PATH' is longer in the {reader} schema than in the {writer}"
    " schema",
    "_CHANGED": "The value at path 'PATH' is not the same in the {reader} and the {writer} schema",
}


def sentence(kind: str, path: str) -> str:
    """Returns the message of a difference. `{reader}` and `{writer}` stand for the schemas."""
    found = _WHOLE.get(kind) or next(
        text for ending, text in _ENDINGS.items() if kind.endswith(ending)
    )
    return found.replace("PATH", path)
