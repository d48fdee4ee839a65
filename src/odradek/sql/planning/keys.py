"""What a column of a key may be."""

from sqlglot import exp

from odradek.sql.errors import Invalid, Place
from odradek.sql.language.dialect import place_of
from odradek.streams.plan.types import SqlType


def check_key_type(name: str, kind: SqlType | None, node: exp.Expr | Place) -> None:
    """Raises for a type that keys cannot have: equal maps have no equal bytes."""
    if "MAP<" in str(kind):
        raise Invalid(
            "Map keys, including types that contain maps, are not supported as they may lead to"
            f" unexpected behavior due to inconsistent serialization. Key column name: `{name}`."
            f" Column type: {kind}", node if isinstance(node, Place) else place_of(node),
        )  # fmt: skip
