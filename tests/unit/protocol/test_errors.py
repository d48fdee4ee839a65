"""Error codes against kio's, and the exceptions made of them."""

import pickle

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from odradek.protocol.errors import (
    AuthenticationError,
    AuthorizationError,
    CoordinatorError,
    ErrorCode,
    FencedError,
    InvalidRequestError,
    KafkaError,
    RetriableError,
    StaleMetadataError,
    error_for,
    raise_for,
)


def test_codes_names_and_retriability_are_kafkas() -> None:
    ours = [(int(code), code.name.lower(), code.retriable) for code in ErrorCode]
    assert ours == [(code.value, code.name, code.retriable) for code in KioErrorCode]


def test_every_code_has_a_sentence_of_its_own() -> None:
    sentences = [code.message for code in ErrorCode]
    assert all(sentence.endswith(".") for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("code", ErrorCode)
def test_an_exception_is_retriable_exactly_if_its_code_is(code: ErrorCode) -> None:
    error = error_for(code)
    assert isinstance(error, RetriableError) == code.retriable
    assert error.code is code
    assert str(error) == f"{code.name}: {code.message}"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, StaleMetadataError),
        (ErrorCode.NOT_COORDINATOR, CoordinatorError),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, AuthenticationError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.PRODUCER_FENCED, FencedError),
        (ErrorCode.INVALID_REQUEST, InvalidRequestError),
        (ErrorCode.REQUEST_TIMED_OUT, RetriableError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, KafkaError),
    ],
)
def test_codes_find_their_class(code: ErrorCode, kind: type[KafkaError]) -> None:
    assert type(error_for(code)) is kind


def test_what_the_broker_said_is_kept() -> None:
    error = error_for(ErrorCode.INVALID_CONFIG, "segment.bytes must be positive")
    assert str(error) == "INVALID_CONFIG: segment.bytes must be positive"
    restored = pickle.loads(pickle.dumps(error))
    assert (type(restored), str(restored)) == (InvalidRequestError, str(error))


def test_a_code_from_the_future_is_reported_by_its_number() -> None:
    error = error_for(999)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "999" in str(error)


def test_raise_for_lets_success_pass() -> None:
    raise_for(0)
    with pytest.raises(StaleMetadataError):
        raise_for(6)
