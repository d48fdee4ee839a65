from odradek.client.consumer.fetch_session import FetchPosition, FetchSession
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchResponse, FetchTopic, ForgottenTopic
from odradek.protocol.types import LeaderEpoch, Offset, TopicId, TopicPartition

ONE = TopicId(b"1" * 16)
TWO = TopicId(b"2" * 16)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def want(offset: Offset, topic_id: TopicId = ONE) -> FetchPosition:
    return FetchPosition(topic_id, offset, LeaderEpoch(3), 1000)


def named(topics: list[FetchTopic]) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, one.partition, one.fetch_offset)
        for topic in topics
        for one in topic.partitions
    ]


def dropped(topics: list[ForgottenTopic]) -> list[tuple[TopicId, int]]:
    return [(topic.topic_id, one) for topic in topics for one in topic.partitions]


def opened(session_id: int = 9) -> FetchSession:
    session = FetchSession()
    session.next_request({A0: want(Offset(0)), A1: want(Offset(5))})
    assert session.handle_response(FetchResponse(session_id=session_id))
    return session


def test_the_first_request_is_full_and_opens_a_session() -> None:
    session = FetchSession()
    topics, forgotten = session.next_request(
        {A0: want(Offset(0)), A1: want(Offset(5)), B0: want(Offset(7), TWO)}
    )
    assert (session.session_id, session.epoch) == (0, 0)
    assert named(topics) == [("a", 0, 0), ("a", 1, 5), ("b", 0, 7)]
    assert forgotten == []
    assert session.name_of(TWO) == "b"
    session.handle_response(FetchResponse(session_id=9))
    assert (session.session_id, session.epoch) == (9, 1)


def test_later_requests_name_only_what_changed() -> None:
    session = opened()
    topics, forgotten = session.next_request({A0: want(Offset(1)), A1: want(Offset(5))})
    assert named(topics) == [("a", 0, 1)]
    assert forgotten == []
    session.handle_response(FetchResponse(session_id=9))
    assert session.epoch == 2
    topics, forgotten = session.next_request({A0: want(Offset(1)), A1: want(Offset(5))})
    assert topics == []


def test_what_is_no_longer_wanted_is_forgotten() -> None:
    session = opened()
    topics, forgotten = session.next_request({A1: want(Offset(5)), B0: want(Offset(0), TWO)})
    assert named(topics) == [("b", 0, 0)]
    assert dropped(forgotten) == [(ONE, 0)]


def test_a_topic_made_anew_replaces_the_old_one() -> None:
    session = opened()
    topics, forgotten = session.next_request({A0: want(Offset(0), TWO), A1: want(Offset(5))})
    assert [(topic.topic_id, topic.partitions[0].partition) for topic in topics] == [(TWO, 0)]
    assert dropped(forgotten) == [(ONE, 0)]


def test_without_a_session_every_request_is_full() -> None:
    session = opened(session_id=0)
    assert (session.session_id, session.epoch) == (0, 0)
    topics, _ = session.next_request({A0: want(Offset(0)), A1: want(Offset(5))})
    assert len(named(topics)) == 2


def test_a_session_that_the_broker_forgot_is_opened_anew() -> None:
    session = opened()
    session.next_request({A0: want(Offset(1))})
    assert not session.handle_response(
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    )
    assert (session.session_id, session.epoch) == (0, 0)
    assert named(session.next_request({A0: want(Offset(1))})[0]) == [("a", 0, 1)]


def test_a_session_out_of_step_is_closed_and_opened_anew() -> None:
    session = opened()
    assert not session.handle_response(
        FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    )
    assert (session.session_id, session.epoch) == (9, 0)
    session = opened()
    session.handle_failure()
    assert (session.session_id, session.epoch) == (9, 0)


def test_epochs_go_round() -> None:
    session = opened()
    session.epoch = 2**31 - 1
    session.handle_response(FetchResponse(session_id=9))
    assert session.epoch == 1
