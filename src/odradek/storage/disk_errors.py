"""Decides what an error of the operating system means for a log directory.

Every `OSError` of a call that touches the disk has one of three consequences. The table in
docs/storage.md ("Errors of the disk") lists for each call which one it is and who retries.

- `REFUSE`: the process or the operating system is short of descriptors or memory, and the disk is
  healthy. The operation is refused, nothing has changed, and a later one may succeed.
- `FULL`: the disk or the user's quota is used up. The directory takes no records until there is
  space again, and is read as before.
- `OFFLINE`: the disk failed, or it is unknown what is on it. The directory is offline until the
  broker starts again; the other directories are served.

A failed sync is always `OFFLINE` (`flusher`): the kernel may have dropped the pages. So is an
error in the middle of a change that cannot be undone (`is_halfway`).
"""

import errno
from enum import Enum
from typing import Final


class Answer(Enum):
    REFUSE = "refuse"
    FULL = "full"
    OFFLINE = "offline"


# The process (EMFILE) or the operating system (ENFILE) has too many files open, there is no memory
# (ENOMEM), or the kernel asks to try again (EAGAIN, EINTR).
NO_DESCRIPTOR_LEFT: Final = (errno.EMFILE, errno.ENFILE)
_SHORTAGE: Final = (*NO_DESCRIPTOR_LEFT, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
# The disk or the user's quota is used up.
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


def answer_to(error: OSError, *, is_halfway: bool = False) -> Answer:
    """Every error that is not listed above is treated as a failure of the disk: EIO, EROFS, ENXIO,
    ENODEV, ESTALE, EACCES and all others."""
    if is_halfway:
        return Answer.OFFLINE
    if error.errno in _SHORTAGE:
        return Answer.REFUSE
    if error.errno in NO_ROOM:
        return Answer.FULL
    return Answer.OFFLINE


def is_passing(error: OSError) -> bool:
    """Returns whether the same call may succeed later without a restart."""
    return answer_to(error) is not Answer.OFFLINE
