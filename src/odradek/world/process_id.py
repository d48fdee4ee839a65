"""The id of this process, by which an object notices that it was forked."""

import os


def process_id() -> int:
    return os.getpid()
