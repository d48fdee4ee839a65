"""SQL over topics: ksqlDB's language, and a server with its REST interface.

    language   statements and expressions: the parser
    functions  all functions, in one table
    planning   types of expressions, and queries compiled to the plan of `odradek.streams`
    engine     streams, tables and queries; persistent queries with exactly-once results
    api        the REST interface

docs/sql.md is the guide, docs/decisions/0097-sql-and-streams.md says why it is built so.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names
from odradek.web import missing as web_missing
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from odradek.sql.user_functions import udaf, udf, udtf
else:
    _HOME = "odradek.sql.user_functions"
    __getattr__ = lazy_names(__name__, dict.fromkeys(("udaf", "udf", "udtf"), _HOME))

__all__ = ["missing", "udaf", "udf", "udtf"]


def missing() -> str | None:
    """Returns what to do if the packages of the extra are not installed, or None."""
    if find_spec("sqlglot") is None:
        return f"sqlglot is not installed: {install_line('sql')}"
    return web_missing()
