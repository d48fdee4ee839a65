"""The error codes that clients get when the metadata store is not available."""

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.metadata import ChangeTooBig, OutcomeUnknown, SessionExpired, StoreUnavailable
from odradek.metadata.compare_and_set import Contended
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode


@contextmanager
def as_api_errors() -> Iterator[None]:
    """Turns errors of the metadata store into `ApiError`: a client may try again after a
    timeout."""
    try:
        yield
    except ChangeTooBig as error:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"This is too much at a time: {error}."
        ) from error
    except Contended as error:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{error}; try again.") from error
    except (StoreUnavailable, OutcomeUnknown, SessionExpired) as error:
        raise ApiError(
            ErrorCode.REQUEST_TIMED_OUT, "The metadata store does not answer; try again."
        ) from error
