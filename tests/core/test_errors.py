"""Errors about records: they name the stream, keep their facts, and survive being copied to another process."""

import pickle

import pytest

from consumer.core import errors
from consumer.core.records import Record

STREAM = "kafka/orders/3"

OF_STREAMS = [
    errors.Conflict(7, b"1", b"2", stream=STREAM),
    errors.Conflict(7, None, b"2", stream=STREAM),
    errors.Conflict(7, None, None, stream=STREAM),
    errors.Gap(5, 7, stream=STREAM),
    errors.ResyncRequired(5, 7, stream=STREAM),
    errors.CursorAhead(5, 3, stream=STREAM),
    errors.CursorAhead(5, -1, stream=STREAM, is_firm=False),
    errors.SourceChanged(STREAM, "one", "other"),
    errors.RecordTooLarge(STREAM, 7, 1024),
    errors.UnfinishedRecord(STREAM, 7),
    errors.BadRecord(Record(STREAM, 7, b"secret"), "no such machine"),
]


@pytest.mark.parametrize("error", OF_STREAMS, ids=repr)
def test_an_error_about_a_record_names_its_stream_in_one_line(error: errors.ConsumerError) -> None:
    assert STREAM in str(error)
    assert "\n" not in str(error)
    assert "event" not in str(error)
    assert "secret" not in str(error) + repr(error)


@pytest.mark.parametrize(
    "error",
    [*OF_STREAMS, errors.GroupShared("g", "1234"), errors.SourceUnusable("file:///x", "it is a folder")],
    ids=repr,
)
def test_an_error_keeps_its_facts_in_another_process(error: errors.ConsumerError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize(
    "error",
    [errors.Conflict(7, 1, 2), errors.Gap(5, 7), errors.ResyncRequired(5, 7), errors.CursorAhead(5, 3)],
    ids=repr,
)
def test_the_contracts_errors_are_about_events_and_no_stream(error: errors.ConsumerError) -> None:
    assert "event" in str(error)
    assert getattr(error, "stream", "") is None


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (errors.Conflict(7, None, b"2", stream=STREAM), ["record 7", "where none was before"]),
        (errors.Conflict(7, b"1", b"2", stream=STREAM), ["record 7", "with other content"]),
        (errors.Conflict(7, None, None, stream=STREAM), ["record 7", "is not there any more"]),
        (errors.Gap(5, 7, stream=STREAM), ["from 7 on", "from 5 on"]),
        (errors.ResyncRequired(5, 7, stream=STREAM), ["begins at 7", "follows 5"]),
        (errors.CursorAhead(5, 3, stream=STREAM), ["is at 5", "ends at 3"]),
        (errors.CursorAhead(5, -1, stream=STREAM), ["is at 5", "is empty"]),
        (errors.SourceChanged(STREAM, "one", "other"), ["was one", "is other"]),
        (errors.RecordTooLarge(STREAM, 7, 1024), ["record 7", "1024 bytes"]),
        (errors.UnfinishedRecord(STREAM, 7), ["byte 7", "no newline"]),
        (errors.BadRecord(Record(STREAM, 7, b""), "no such machine"), ["record 7", "no such machine"]),
        (errors.GroupShared("orders", "1234"), ["orders", "1234"]),
        (errors.SourceUnusable("file:///x", "it is a folder"), ["file:///x", "it is a folder"]),
    ],
    ids=repr,
)
def test_a_message_has_the_facts_that_its_reader_needs(error: errors.ConsumerError, facts: list[str]) -> None:
    assert all(fact in str(error) for fact in facts), str(error)


def test_a_bad_record_that_is_none_is_refused_where_it_is_raised() -> None:
    with pytest.raises(AttributeError, match="'str' object has no attribute 'stream'"):
        errors.BadRecord("order 7")  # type: ignore[arg-type]
