"""Mistakes in the grammar, the decoders and the encoders: what is a frame, and where it ends."""

from tests.mutants.breakage import Breakage

WIRE, EVENTS, HISTORY = "consumer/sources/tcp/wire.py", "consumer/core/events.py", "consumer/core/history.py"

PARSE_LINE = "tests/contract/test_parse_line.py"
DECODE = "tests/contract/test_decode.py"
OF_WIRE = "tests/sources/tcp/test_wire.py"
REPLAY = "tests/contract/test_replay.py"

BREAKAGES = (
    Breakage(
        "a leading zero is taken",
        "wire:",
        "b'(?:[1-9][0-9]{0,9}+|0)'",
        "b'(?:[0-9]{1,10}+)'",
        f"{PARSE_LINE}::test_every_single_byte_changed_added_or_taken_away",
    ),
    Breakage(
        "-0 is a number",
        "wire:",
        "b'(?:-?(?:[1-9][0-9]{0,2}|1000)|0)'",
        "b'(?:-?(?:[1-9][0-9]{0,2}|1000|0))'",
        f"{DECODE}::test_the_first_line_that_the_parser_refuses_stops_the_reading",
    ),
    Breakage(
        "a number above the range is taken",
        "parse_line",
        "(seq := int(match[1])) > SEQ_MAX",
        "(seq := int(match[1])) > 2 * SEQ_MAX",
        f"{PARSE_LINE}::test_every_single_byte_changed_added_or_taken_away",
    ),
    Breakage(
        "a number above the range is taken where it comes in a chunk",
        "_read_numbers",
        "max(numbers) <= SEQ_MAX",
        "max(numbers) <= SEQ_MAX + 1",
        f"{DECODE}::test_a_bad_seq_deep_in_a_large_chunk_is_found",
    ),
    Breakage(
        "what follows a bad number in a chunk is taken with it",
        "_read_numbers",
        "numbers[place] > SEQ_MAX",
        "numbers[place] >= max(numbers)",
        f"{DECODE}::test_of_several_numbers_out_of_range_the_first_ends_what_is_read",
    ),
    Breakage(
        "a line without an end is buffered without an end",
        "_unfinished",
        "len(rest) >= LINE_BYTES_MAX",
        "len(rest) > 2 ** 20",
        f"{DECODE}::test_an_unfinished_rest_of_64_bytes_or_more_is_malformed",
    ),
    Breakage(
        "events after a snapshot are lost with it",
        "decode_events",
        "rest[len(line):]",
        "b''",
        f"{DECODE}::test_a_control_frame_stops_the_reading_with_its_numbers",
    ),
    Breakage(
        "good events before a malformed line are lost with it",
        "decode_events",
        "(Events(numbers), rest, MalformedFrame(line))",
        "(Events([]), rest, MalformedFrame(line))",
        f"{DECODE}::test_the_first_line_that_the_parser_refuses_stops_the_reading",
    ),
    Breakage(
        "a run of acknowledgements has one of another thousand in it",
        "encode_acks",
        "last + 1 - 1000 * thousand",
        "last - 1000 * thousand",
        f"{OF_WIRE}::test_a_run_of_acknowledgements_is_right_around_every_thousand",
    ),
    Breakage(
        "acknowledgements that are no run are sent as one",
        "encode_acks",
        "last - first == len(seqs) - 1 and seqs == list(range(first, last + 1))",
        "last - first == len(seqs) - 1",
        f"{OF_WIRE}::test_acknowledgements_out_of_order_stay_so",
    ),
    Breakage(
        "a delta beyond the range is applied",
        "Events.if_valid",
        "min(deltas) < -DELTA_MAX",
        "min(deltas) < -DELTA_MAX - 1",
        "tests/core/test_events.py::test_a_delta_out_of_range_is_found",
    ),
    Breakage(
        "True is an event's number",
        "is_integer",
        "isinstance(value, int) and (not isinstance(value, bool)) and (low <= value <= high)",
        "isinstance(value, int) and low <= value <= high",
        f"{REPLAY}::test_a_seq_that_is_no_int_is_refused",
    ),
    Breakage(
        "a cursor that lacks one event is served without it",
        "replay",
        "last < first - 1",
        "last < first - 2",
        f"{REPLAY}::test_a_cursor_one_earlier_lacks_an_event",
    ),
    Breakage(
        "a history with a hole in it is served",
        "_check_history",
        "after != before + 1",
        "after <= before",
        f"{REPLAY}::test_seqs_that_are_not_consecutive_and_ascending_are_refused",
    ),
    Breakage(
        "a good line that is cut before its line feed is refused",
        "_unfinished",
        "LINE_BYTES_MAX",
        "16",
        "tests/fuzz/test_decoder.py::test_events_are_what_the_lines_say",
    ),
    Breakage(
        "an ACK beyond the range of numbers is taken for one in it",
        "_read_numbers",
        "numbers[:good]",
        "[min(number, SEQ_MAX) for number in numbers]",
        "tests/fuzz/test_decoder.py::test_acknowledgements_are_what_the_lines_say",
    ),
    Breakage(
        "a RESUME beyond the range of numbers is taken",
        "parse_resume",
        "(last := int(match[1])) > SEQ_MAX",
        "(last := int(match[1])) > SEQ_MAX + 1",
        "tests/fuzz/test_decoder.py::test_a_single_line_is_read_or_refused_and_nothing_else",
    ),
)
