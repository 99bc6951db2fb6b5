"""Mistakes on the other side: the journal, who writes it and who serves it."""

from tests.mutants.breakage import Breakage

APPEND, JOURNAL, EXTENT = (
    "consumer/publisher/journal/append.py",
    "consumer/publisher/journal/reading.py",
    "consumer/publisher/journal/extent.py",
)
SESSION, SERVER, SOURCE = (
    "consumer/publisher/server/session.py",
    "consumer/publisher/server/publisher.py",
    "consumer/publisher/server/followed.py",
)
CHANNEL, FILES, INTAKE = (
    "consumer/publisher/server/channel.py",
    "consumer/publisher/journal/files.py",
    "consumer/publisher/journal/intake.py",
)
REPAIR = "consumer/publisher/journal/repair.py"

OF_APPEND = "tests/publisher/test_append.py"
OF_REPAIR = "tests/publisher/test_repair.py"
OF_JOURNAL = "tests/publisher/test_journal.py"
OF_EXTENT = "tests/publisher/test_extent.py"
OF_SERVER = "tests/publisher/test_server.py"

BREAKAGES = (
    # Durable before it is reported, durable before it is sent.
    Breakage(
        "an append is reported before it is on disk",
        APPEND,
        "            files.sync_file(self._descriptor)\n            self._size",
        "            self._size",
        f"{OF_APPEND}::test_never_more_than_a_mib_is_written_between_two_syncs",
    ),
    Breakage(
        "a power cut damages more than what is validated",
        APPEND,
        "end = len(buffer) if len(buffer) <= APPEND_BYTES_MAX else",
        "end = len(buffer) if len(buffer) <= 9 * APPEND_BYTES_MAX else",
        f"{OF_APPEND}::test_never_more_than_a_mib_is_written_between_two_syncs",
    ),
    Breakage(
        "a new journal is gone with the power",
        REPAIR,
        "    files.sync_folder(path)\n",
        "",
        f"{OF_APPEND}::test_a_new_file_is_synced_into_its_folder",
    ),
    Breakage(
        "an event is sent before it is on disk",
        JOURNAL,
        "        self._sync()\n        self._end = (",
        "        self._end = (",
        f"{OF_JOURNAL}::test_nothing_is_shown_that_is_not_on_disk",
    ),
    Breakage(
        "what was in the journal at the start is sent before it is on disk",
        JOURNAL,
        "            self._sync()\n            files",
        "            files",
        f"{OF_JOURNAL}::test_nothing_is_shown_that_is_not_on_disk",
    ),
    Breakage(
        "after a failed sync the publisher goes on",
        JOURNAL,
        "            raise JournalUnusable(self.path, reason) from error\n\n    def find",
        "            self.fault = reason\n\n    def find",
        f"{OF_JOURNAL}::test_a_sync_that_fails_is_final_and_shows_nothing",
    ),
    # Who writes.
    Breakage(
        "two writers at once",
        APPEND,
        "            if _lock(descriptor) and files.is_at(descriptor, path):\n",
        "            if files.is_at(descriptor, path):\n",
        f"{OF_APPEND}::test_a_second_writer_is_refused_and_a_reader_is_not",
    ),
    Breakage(
        "events are appended to a file that is no longer the journal",
        APPEND,
        "        if not files.is_at(self._descriptor, self.path):\n",
        "        if self._descriptor is None:\n",
        f"{OF_APPEND}::test_a_file_that_is_no_longer_the_journal_is_not_appended_to",
    ),
    Breakage(
        "another program's bytes are written over and counted as ours",
        APPEND,
        "        if size != self._size:\n",
        "        if size < self._size:\n",
        f"{OF_APPEND}::test_another_program_that_writes_without_the_lock_is_noticed",
    ),
    Breakage(
        "after a failed append the next one goes on behind torn bytes",
        APPEND,
        "        self._failed = True  #",
        "        self._failed = False  #",
        f"{OF_APPEND}::test_a_sync_that_fails_is_reported_and_ends_this_writer",
    ),
    Breakage(
        "what one failed sync has lost is believed to be on disk",
        REPAIR,
        "    _write_again(descriptor, extent.end)\n",
        "",
        f"{OF_REPAIR}::test_opening_writes_the_end_once_more_before_it_syncs_it",
    ),
    Breakage(
        "good lines behind a bad one are destroyed by a repair",
        REPAIR,
        'if b"\\n" in lost else None',
        'if b"\\n" not in lost else None',
        f"{OF_REPAIR}::test_what_is_cut_is_kept_in_a_file_that_the_message_names",
    ),
    Breakage(
        "a repair cuts a good event",
        REPAIR,
        "        os.ftruncate(descriptor, extent.end)\n",
        "        os.ftruncate(descriptor, extent.end - 1)\n",
        "tests/fuzz/test_journal.py::test_a_repair_leaves_a_journal_and_cuts_no_good_event",
    ),
    Breakage(
        "a repair leaves what no reader counts",
        REPAIR,
        "        os.ftruncate(descriptor, extent.end)\n",
        "",
        "tests/fuzz/test_journal.py::test_a_repair_leaves_a_journal_and_cuts_no_good_event",
    ),
    Breakage(
        "somebody's other file is taken for a journal and cut",
        EXTENT,
        "        if extent.end == 0 and not _may_begin(buffer, fault):\n",
        "        if extent.end == 0 and fault is None and not _may_begin(buffer, fault):\n",
        f"{OF_REPAIR}::test_a_text_that_is_no_journal_is_left_alone",
    ),
    Breakage(
        "bare deltas are numbered from the wrong event",
        INTAKE,
        "number_deltas(buffer, appender.head + 1)",
        "number_deltas(buffer, max(appender.head, 0))",
        "tests/publisher/test_intake.py::test_bare_deltas_go_on_with_the_next_number",
    ),
    # Which lines count.
    Breakage(
        "a journal has a hole in it",
        EXTENT,
        "    if seqs == list(wanted):\n",
        "    if seqs[:1] == [due]:\n",
        f"{OF_EXTENT}::test_the_first_line_that_is_not_the_next_event_ends_the_journal",
    ),
    Breakage(
        "a second look goes on with any number",
        EXTENT,
        "    due = events[0][0] if extent.end == 0 else extent.head + 1\n",
        "    due = events[0][0]\n",
        f"{OF_EXTENT}::test_a_later_read_goes_on_with_the_next_number_alone",
    ),
    Breakage(
        "damage deep in a large journal is cut off with all that follows",
        EXTENT,
        "    if line is None:\n        raise Damage(offset, tail)\n",
        "    if line is None:\n        return known, 'damage'\n",
        f"{OF_EXTENT}::test_damage_further_back_than_one_append_is_not_a_case_for_cutting",
    ),
    Breakage(
        "the event before the cursor is found for it",
        EXTENT,
        "        if int(line[1]) <= seq:\n",
        "        if int(line[1]) < seq:\n",
        "tests/fuzz/test_journal.py::test_it_is_read_as_it_is_or_refused",
    ),
    Breakage(
        "a slice ends with a line whose number cannot be there",
        EXTENT,
        "    if not EVENT_BYTES_MIN <= (end - low)",
        "    if not 0 <= (end - low)",
        f"{OF_EXTENT}::test_a_slice_with_an_end_that_cannot_be_is_damage",
    ),
    # What answers a RESUME.
    Breakage(
        "a cursor that lacks one event gets the next ones without a word",
        EXTENT,
        "    if last < extent.first - 1:\n",
        "    if last < extent.first - 2:\n",
        f"{OF_EXTENT}::test_what_answers_a_resume",
    ),
    Breakage(
        "a cursor ahead of the publisher waits for ever",
        EXTENT,
        "    if last > extent.head:\n        return Ahead(extent.head)\n",
        "",
        f"{OF_SERVER}::test_a_resume_that_cannot_be_served_is_answered_and_the_connection_closed",
    ),
    Breakage(
        "AHEAD is said of an event that is in the file",
        SESSION,
        "            await self._source.catch_up()  #",
        "            pass  #",
        f"{OF_SERVER}::test_ahead_is_never_said_of_events_that_are_in_the_file",
    ),
    Breakage(
        "a consumer gets the event at its cursor again",
        SESSION,
        "        self._offset = journal.find(self.sent + 1)\n",
        "        self._offset = journal.find(max(self.sent, 0))\n",
        f"{OF_SERVER}::test_what_follows_the_cursor_is_sent",
    ),
    # What a consumer says.
    Breakage(
        "an ACK for what was never sent moves a cursor",
        SESSION,
        "        if highest > self.sent:\n",
        "        if highest > self.sent + 1:\n",
        f"{OF_SERVER}::test_an_ack_for_what_was_never_sent_ends_that_connection_alone",
    ),
    Breakage(
        "what is no ACK is passed over",
        SESSION,
        "        if malformed is not None:\n",
        "        if malformed is seqs:\n",
        f"{OF_SERVER}::test_what_is_no_ack_ends_the_connection",
    ),
    Breakage(
        "an ACK that is cut by two reads is none",
        SESSION,
        "decode_acks(self._rest + data)",
        "decode_acks(data)",
        f"{OF_SERVER}::test_acks_may_come_in_any_pieces_again_and_out_of_order",
    ),
    Breakage(
        "a flood of ACKs is taken for ever",
        SESSION,
        "        if self._acks_left < 0:\n",
        "        if self._acks_left < -(10**12):\n",
        f"{OF_SERVER}::test_a_flood_of_repeated_acks_ends_the_connection",
    ),
    Breakage(
        "there is no window: everything is sent to a consumer that acknowledges nothing",
        SESSION,
        "min(journal.extent.head, self.cursor + self._window)",
        "min(journal.extent.head, self.cursor + 1000 * self._window)",
        f"{OF_SERVER}::test_no_more_than_the_window_is_unacknowledged",
    ),
    Breakage(
        "a RESUME without an end is taken for ever",
        SESSION,
        'while b"\\n" not in buffer and len(buffer) < LINE_BYTES_MAX:',
        'while b"\\n" not in buffer:',
        f"{OF_SERVER}::test_what_is_no_resume_ends_the_connection",
    ),
    Breakage(
        "a consumer that never acknowledges keeps its place for ever",
        SESSION,
        "            if silent_s >= self._limits.silence_s:\n",
        "            if silent_s >= 1000 * self._limits.silence_s:\n",
        f"{OF_SERVER}::test_silence_while_events_are_unacknowledged_ends_the_connection",
    ),
    Breakage(
        "repeated ACKs count as progress",
        SESSION,
        "        if highest > self.cursor:\n",
        "        if highest >= self.cursor:\n",
        f"{OF_SERVER}::test_repeated_acks_are_no_progress",
    ),
    # Others beside it, and a journal that is replaced.
    Breakage(
        "any number of connections is taken",
        SERVER,
        "        if len(self._sessions) >= self._connections_max:\n",
        "        if len(self._sessions) >= 1000 * self._connections_max:\n",
        f"{OF_SERVER}::test_beyond_the_limit_on_connections_a_new_one_is_closed",
    ),
    Breakage(
        "a replaced journal is read on from the old place",
        SOURCE,
        "            self.generation += 1\n",
        "",
        f"{OF_SERVER}::test_a_journal_that_was_replaced_goes_on_where_the_consumer_is",
    ),
    Breakage(
        "a journal that lost events is served on",
        JOURNAL,
        "        if self._lost_events():\n",
        "        if self.extent.end < 0:\n",
        f"{OF_SERVER}::test_a_journal_that_lost_events_in_place_is_no_longer_served_to_those_who_had_them",
    ),
    # Seen failing: the tests that look for what nobody thought of.
    Breakage(
        "a damaged snapshot line hides the events behind it",
        EXTENT,
        "        return EMPTY, buffer\n",
        '        return EMPTY, buffer[buffer.find(b"\\n") + 1 :]\n',
        "tests/fuzz/test_journal.py::test_it_is_read_as_it_is_or_refused",
    ),
    Breakage(
        "a control frame in the middle of a journal is counted in",
        EXTENT,
        '            buffer.rfind(b"\\n", 0, size - 1) + 1\n',
        "            size\n",
        "tests/fuzz/test_journal.py::test_what_is_added_is_taken_in_up_to_the_first_bad_line",
    ),
    Breakage(
        "an ACK that comes with RESUME in one packet is lost",
        SESSION,
        "        self._take(buffer)\n        await",
        "        await",
        "tests/fuzz/test_handshake.py::test_whatever_is_said_ends_with_a_reason_and_others_are_served",
    ),
    Breakage(
        "a RESUME with a line feed too late is taken",
        SESSION,
        "            last = parse_resume(line + newline)\n",
        '            last = parse_resume(line.strip() + b"\\n")\n',
        "tests/fuzz/test_handshake.py::test_whatever_is_said_ends_with_a_reason_and_others_are_served",
    ),
)
