"""Flags that `up` and `broker` share; apart from `serving`, so that help needs no broker."""

import argparse


def add_serving_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any broker setting, by Kafka's name; may be repeated",
    )
    parser.add_argument(
        "--log-level",
        choices=("ERROR", "WARN", "INFO", "DEBUG"),
        help="what brokers say (default: WARN on stderr, INFO into a file)",
    )
