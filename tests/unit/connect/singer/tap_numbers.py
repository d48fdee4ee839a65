"""A tap: writes the numbers up to `up_to` of its configuration, from its STATE on.

It speaks the whole protocol: discovery, a catalog with selection, SCHEMA, RECORD, STATE.
"""

import argparse
import json
import os
import sys
from typing import Any

STREAMS = ("numbers", "squares")


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def read(path: str) -> Any:
    with open(path) as file:
        return json.load(file)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--config", "--catalog", "--state"):
        parser.add_argument(name, type=read, default={})
    parser.add_argument("--discover", action="store_true")
    given = parser.parse_args()
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": ["null", "string"]},
            "anything": {},
            "of": {"type": ["object", "null"], "properties": {"half": {"type": "number"}}},
        },
    }
    if given.discover:
        catalog = [
            {"tap_stream_id": name, "stream": name, "schema": schema, "key_properties": ["id"]}
            for name in STREAMS
        ]
        print(json.dumps({"streams": catalog}))
        return
    if given.config.get("fails"):
        print("there is no such account", file=sys.stderr)
        sys.exit(3)
    first = given.state.get("last", 0) + 1
    for stream in given.catalog["streams"]:
        name = stream["stream"]
        if not stream["metadata"][0]["metadata"]["selected"]:
            continue
        say(type="SCHEMA", stream=name, schema=schema, key_properties=["id"])
        for number in range(first, given.config["up_to"] + 1):
            record = {
                "id": number if name == "numbers" else number**2, "name": f"n{number}",
                "anything": {"secret": os.environ.get("SECRET_OF_THE_WORKER")},
                "of": {"half": number / 2},
            }  # fmt: skip
            say(type="RECORD", stream=name, record=record, time_extracted="2024-01-02T00:00:00Z")
            if number % 10 == 0:
                say(type="STATE", value={"last": number})
    say(type="STATE", value={"last": given.config["up_to"]})


if __name__ == "__main__":
    main()
