"""The media types of ksqlDB's own."""

from typing import Final

KSQL: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
