"""Flags that `up`, `broker` and `local` share. They are in a module of their own, so that showing
help does not import the broker."""

import argparse


def add_input_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--until-input-closes",
        action="store_true",
        help="stop when standard input ends: for programs that start a broker",
    )


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
        help="log level of brokers (default: WARN on stderr, INFO into files)",
    )
