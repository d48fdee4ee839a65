"""Checks the name of a topic that a client wants to create."""

import re
from typing import Final

from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode

_MAX_NAME_LENGTH: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Refuses a name that a topic (and its directories) cannot have."""
    if not name:
        reason = "a topic needs a name"
    elif name in (".", ".."):
        reason = "it cannot be '.' or '..'"
    elif len(name) > _MAX_NAME_LENGTH:
        reason = f"it is longer than {_MAX_NAME_LENGTH} characters"
    elif not _NAME.fullmatch(name):
        reason = "it may hold only letters and digits of ASCII, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name '{name}' is invalid: {reason}.")


def check_collision(image: ClusterImage, name: str) -> None:
    """Refuses a topic whose name differs from another one's only by '.' and '_': metrics replace
    '.' by '_', so the two would share their metrics."""
    if "." in name or "_" in name:
        folded = name.replace(".", "_")
        for other in image.topics:
            if other != name and other.replace(".", "_") == folded:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic '{other}': "
                    "'.' and '_' are the same in metric names.",
                )
