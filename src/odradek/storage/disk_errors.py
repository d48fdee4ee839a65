"""What an error of the operating system means for a log directory. The only place that decides it.

Every call that touches the disk ends in one of three answers when it raises `OSError`; the table in
docs/storage.md ("Errors of the disk") says for each place which one it is and who tries again.

- `REFUSE`: the process or the machine is short of something (descriptors, memory) and the disk is
  not to blame. The operation is refused, nothing has changed, a later one may succeed.
- `FULL`: the disk, or the user's share of it, is used up. The directory takes no records until
  there is room, and is read as before.
- `OFFLINE`: the disk failed, or nobody can say what is on it. The directory is offline until the
  broker starts again; the other directories go on.

A failed sync is always `OFFLINE` (`flusher`): the kernel may have dropped the pages. So is an
error in the middle of a change that cannot be taken back (`is_halfway`).
"""

import errno
from enum import Enum
from typing import Final


class Answer(Enum):
    REFUSE = "refuse"
    FULL = "full"
    OFFLINE = "offline"


# The process (EMFILE) or the machine (ENFILE) has too many files open, there is no memory (ENOMEM),
# or the kernel asks to try again (EAGAIN, EINTR).
NO_DESCRIPTOR_LEFT: Final = (errno.EMFILE, errno.ENFILE)
_SHORTAGE: Final = (*NO_DESCRIPTOR_LEFT, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
# The disk or the user's share of it is used up.
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


def answer_to(error: OSError, *, is_halfway: bool = False) -> Answer:
    """What to do about an error. One that is not known counts as a failure of the disk: EIO, EROFS,
    ENXIO, ENODEV, ESTALE, EACCES and whatever else."""
    if is_halfway:
        return Answer.OFFLINE
    if error.errno in _SHORTAGE:
        return Answer.REFUSE
    if error.errno in NO_ROOM:
        return Answer.FULL
    return Answer.OFFLINE


def is_passing(error: OSError) -> bool:
    """Whether the same call may succeed later without a restart."""
    return answer_to(error) is not Answer.OFFLINE
