"""The output of `odradek sizing`: needs with their formulas, then warnings."""

import argparse
from collections.abc import Sequence
from math import isfinite
from textwrap import fill

from odradek.cli.parser import terminal_columns
from odradek.cli.sizing.plan import Load, Plan, plan
from odradek.tools.terminal import print_json
from odradek.world.disk import OsDisk

_MAX_WIDTH = 100
_MIN_WIDTH = 40


def report(arguments: argparse.Namespace, assumed: Sequence[str]) -> int:
    """Prints what the load of the arguments needs. `assumed` are the flags that the user left out,
    for the JSON."""
    made = plan(_load(arguments))
    if arguments.json:
        print_json(_as_json(made) | {"assumed": assumed})
    else:
        _print(made)
    return 0


def _load(arguments: argparse.Namespace) -> Load:
    return Load(
        rate_bytes=arguments.rate,
        partitions=arguments.partitions,
        brokers=arguments.brokers,
        replication_factor=arguments.replication_factor,
        retention_s=arguments.retention,
        retention_bytes=arguments.retention_bytes,
        is_compacted=arguments.compacted,
        keys=arguments.keys,
        record_bytes=arguments.record_bytes,
        batch_bytes=arguments.batch_bytes,
        consumers=arguments.consumers,
        clients=arguments.clients,
        segment_bytes=arguments.segment_bytes,
        segment_s=arguments.segment_time,
        hot_s=arguments.hot,
        network_bytes=arguments.network,
        free_share=arguments.free_percent / 100,
        max_descriptors=OsDisk().max_open_files(),
    )


def _print(made: Plan) -> None:
    columns = min(_MAX_WIDTH, max(_MIN_WIDTH, terminal_columns(_MAX_WIDTH)))
    width = max(len(need.name) for need in made.needs)
    indent = " " * (width + 2)
    for need in made.needs:
        print(f"{need.name.ljust(width)}  {need.shown}")
        for text in (f"= {need.how}", need.advice):
            print(fill(text, columns, initial_indent=indent, subsequent_indent=indent + "  "))
    for warning in made.warnings:
        print()
        print(fill(f"warning: {warning}", columns, subsequent_indent="  "))


def _as_json(made: Plan) -> dict[str, object]:
    return {
        "needs": [
            {
                "name": need.name,
                "value": need.value if isfinite(need.value) else None,
                "shown": need.shown,
                "formula": need.how,
                "advice": need.advice,
            }
            for need in made.needs
        ],
        "warnings": made.warnings,
    }
