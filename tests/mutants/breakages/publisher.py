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
        "Appender._write",
        "try:\n    self._check_unchanged()\n    files.write_all(self._descriptor, piece)\n    disk.sync_file(self._descriptor)\n    self._size += len(piece)\nexcept OSError as error:\n    reason = f'an append failed: {why(error)}; fix that, and append again what comes after its last event'\n    raise JournalUnusable(self.path, reason) from error",
        "try:\n    self._check_unchanged()\n    files.write_all(self._descriptor, piece)\n    self._size += len(piece)\nexcept OSError as error:\n    reason = f'an append failed: {why(error)}; fix that, and append again what comes after its last event'\n    raise JournalUnusable(self.path, reason) from error",
        f"{OF_APPEND}::test_never_more_than_a_mib_is_written_between_two_syncs",
    ),
    Breakage(
        "a power cut damages more than what is validated",
        "Appender._append",
        "len(buffer) <= APPEND_BYTES_MAX",
        "len(buffer) <= 9 * APPEND_BYTES_MAX",
        f"{OF_APPEND}::test_never_more_than_a_mib_is_written_between_two_syncs",
    ),
    Breakage(
        "a new journal is gone with the power",
        "repair",
        "def repair(path: str, descriptor: int) -> tuple[Extent, Cut | None]:\n    \"\"\"Validate the end, cut off what is no event, and make durable what is left.\n\n    A process that dies in between leaves the damage where it was, in the file aside, or in both.\n\n    Args:\n        path: the journal's file.\n        descriptor: the same, open for reading and writing, and locked.\n\n    Returns:\n        What the journal holds, and what was cut off: None where the end was good.\n\n    Raises:\n        Damage: as `survey`; nothing was cut.\n        JournalUnusable: what must be kept cannot be, or another program writes to the file; nothing was cut.\n        OSError: the disk fails.\n    \"\"\"\n\n    def read(offset: int, size: int) -> bytes:\n        return os.pread(descriptor, size, offset)\n    status = os.fstat(descriptor)\n    extent, fault = survey(read, status.st_size)\n    cut: Cut | None = None\n    if status.st_size > extent.end:\n        lost = read(extent.end, status.st_size - extent.end)\n        kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))\n        if os.fstat(descriptor).st_size != extent.end + len(lost):\n            raise JournalUnusable(path, 'it changes while its end is repaired: another program writes without the lock')\n        reason = fault or 'the last line is unfinished'\n        cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b'\\n'))\n        os.ftruncate(descriptor, extent.end)\n    _write_again(descriptor, extent.end)\n    disk.sync_file(descriptor)\n    disk.sync_folder(path)\n    return (extent, cut)",
        "def repair(path: str, descriptor: int) -> tuple[Extent, Cut | None]:\n    \"\"\"Validate the end, cut off what is no event, and make durable what is left.\n\n    A process that dies in between leaves the damage where it was, in the file aside, or in both.\n\n    Args:\n        path: the journal's file.\n        descriptor: the same, open for reading and writing, and locked.\n\n    Returns:\n        What the journal holds, and what was cut off: None where the end was good.\n\n    Raises:\n        Damage: as `survey`; nothing was cut.\n        JournalUnusable: what must be kept cannot be, or another program writes to the file; nothing was cut.\n        OSError: the disk fails.\n    \"\"\"\n\n    def read(offset: int, size: int) -> bytes:\n        return os.pread(descriptor, size, offset)\n    status = os.fstat(descriptor)\n    extent, fault = survey(read, status.st_size)\n    cut: Cut | None = None\n    if status.st_size > extent.end:\n        lost = read(extent.end, status.st_size - extent.end)\n        kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))\n        if os.fstat(descriptor).st_size != extent.end + len(lost):\n            raise JournalUnusable(path, 'it changes while its end is repaired: another program writes without the lock')\n        reason = fault or 'the last line is unfinished'\n        cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b'\\n'))\n        os.ftruncate(descriptor, extent.end)\n    _write_again(descriptor, extent.end)\n    disk.sync_file(descriptor)\n    return (extent, cut)",
        f"{OF_APPEND}::test_a_new_file_is_synced_into_its_folder",
    ),
    Breakage(
        "an event is sent before it is on disk",
        "JournalReader._take_in",
        "def _take_in(self, added: int) -> Look:\n    if self._lost_events():\n        return Look(replaced=True)\n    if self.fault is not None:\n        peeked, fault = extend(self.extent, self.read(self.extent.end, LINE_BYTES_MAX))\n        if fault is not None and peeked.end == self.extent.end:\n            return Look()\n    buffer = self.read(self.extent.end, min(added, LOOK_BYTES))\n    extent, self.fault = extend(self.extent, buffer)\n    if extent.end == self.extent.end:\n        return Look()\n    self._sync()\n    self._known_end = (self._known_end + buffer[:extent.end - self.extent.end])[-LINE_BYTES_MAX:]\n    self.extent = extent\n    return Look(grew=True, complete=added <= LOOK_BYTES or self.fault is not None)",
        "def _take_in(self, added: int) -> Look:\n    if self._lost_events():\n        return Look(replaced=True)\n    if self.fault is not None:\n        peeked, fault = extend(self.extent, self.read(self.extent.end, LINE_BYTES_MAX))\n        if fault is not None and peeked.end == self.extent.end:\n            return Look()\n    buffer = self.read(self.extent.end, min(added, LOOK_BYTES))\n    extent, self.fault = extend(self.extent, buffer)\n    if extent.end == self.extent.end:\n        return Look()\n    self._known_end = (self._known_end + buffer[:extent.end - self.extent.end])[-LINE_BYTES_MAX:]\n    self.extent = extent\n    return Look(grew=True, complete=added <= LOOK_BYTES or self.fault is not None)",
        f"{OF_JOURNAL}::test_nothing_is_shown_that_is_not_on_disk",
    ),
    Breakage(
        "what was in the journal at the start is sent before it is on disk",
        "JournalReader.__init__",
        "try:\n    size = os.fstat(self.descriptor).st_size\n    self.extent, self.fault = survey(self.read, size)\n    self._known_end = self._read_end()\n    self._sync()\n    disk.sync_folder(self.path)\nexcept BaseException as error:\n    self.close()\n    if isinstance(error, Damage):\n        advice = 'give another name' if isinstance(error, NoJournal) else 'restore it from a copy'\n        raise JournalUnusable(self.path, f'{error}; {advice}') from error\n    if isinstance(error, OSError):\n        raise JournalUnusable(self.path, why(error)) from error\n    raise",
        "try:\n    size = os.fstat(self.descriptor).st_size\n    self.extent, self.fault = survey(self.read, size)\n    self._known_end = self._read_end()\n    disk.sync_folder(self.path)\nexcept BaseException as error:\n    self.close()\n    if isinstance(error, Damage):\n        advice = 'give another name' if isinstance(error, NoJournal) else 'restore it from a copy'\n        raise JournalUnusable(self.path, f'{error}; {advice}') from error\n    if isinstance(error, OSError):\n        raise JournalUnusable(self.path, why(error)) from error\n    raise",
        f"{OF_JOURNAL}::test_nothing_is_shown_that_is_not_on_disk",
    ),
    Breakage(
        "after a failed sync the publisher goes on",
        "JournalReader._sync",
        "raise JournalUnusable(self.path, reason) from error",
        "self.fault = reason",
        f"{OF_JOURNAL}::test_a_sync_that_fails_is_final_and_shows_nothing",
    ),
    # Who writes.
    Breakage(
        "two writers at once",
        "_open_locked",
        "_lock(descriptor) and disk.is_at(descriptor, path)",
        "disk.is_at(descriptor, path)",
        f"{OF_APPEND}::test_a_second_writer_is_refused_and_a_reader_is_not",
    ),
    Breakage(
        "events are appended to a file that is no longer the journal",
        "Appender._check_unchanged",
        "not disk.is_at(self._descriptor, self.path)",
        "self._descriptor is None",
        f"{OF_APPEND}::test_a_file_that_is_no_longer_the_journal_is_not_appended_to",
    ),
    Breakage(
        "another program's bytes are written over and counted as ours",
        "Appender._check_unchanged",
        "size != self._size",
        "size < self._size",
        f"{OF_APPEND}::test_another_program_that_writes_without_the_lock_is_noticed",
    ),
    Breakage(
        "after a failed append the next one goes on behind torn bytes",
        "Appender._write",
        "self._failed = True",
        "self._failed = False",
        f"{OF_APPEND}::test_a_sync_that_fails_is_reported_and_ends_this_writer",
    ),
    Breakage(
        "what one failed sync has lost is believed to be on disk",
        "repair",
        "def repair(path: str, descriptor: int) -> tuple[Extent, Cut | None]:\n    \"\"\"Validate the end, cut off what is no event, and make durable what is left.\n\n    A process that dies in between leaves the damage where it was, in the file aside, or in both.\n\n    Args:\n        path: the journal's file.\n        descriptor: the same, open for reading and writing, and locked.\n\n    Returns:\n        What the journal holds, and what was cut off: None where the end was good.\n\n    Raises:\n        Damage: as `survey`; nothing was cut.\n        JournalUnusable: what must be kept cannot be, or another program writes to the file; nothing was cut.\n        OSError: the disk fails.\n    \"\"\"\n\n    def read(offset: int, size: int) -> bytes:\n        return os.pread(descriptor, size, offset)\n    status = os.fstat(descriptor)\n    extent, fault = survey(read, status.st_size)\n    cut: Cut | None = None\n    if status.st_size > extent.end:\n        lost = read(extent.end, status.st_size - extent.end)\n        kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))\n        if os.fstat(descriptor).st_size != extent.end + len(lost):\n            raise JournalUnusable(path, 'it changes while its end is repaired: another program writes without the lock')\n        reason = fault or 'the last line is unfinished'\n        cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b'\\n'))\n        os.ftruncate(descriptor, extent.end)\n    _write_again(descriptor, extent.end)\n    disk.sync_file(descriptor)\n    disk.sync_folder(path)\n    return (extent, cut)",
        "def repair(path: str, descriptor: int) -> tuple[Extent, Cut | None]:\n    \"\"\"Validate the end, cut off what is no event, and make durable what is left.\n\n    A process that dies in between leaves the damage where it was, in the file aside, or in both.\n\n    Args:\n        path: the journal's file.\n        descriptor: the same, open for reading and writing, and locked.\n\n    Returns:\n        What the journal holds, and what was cut off: None where the end was good.\n\n    Raises:\n        Damage: as `survey`; nothing was cut.\n        JournalUnusable: what must be kept cannot be, or another program writes to the file; nothing was cut.\n        OSError: the disk fails.\n    \"\"\"\n\n    def read(offset: int, size: int) -> bytes:\n        return os.pread(descriptor, size, offset)\n    status = os.fstat(descriptor)\n    extent, fault = survey(read, status.st_size)\n    cut: Cut | None = None\n    if status.st_size > extent.end:\n        lost = read(extent.end, status.st_size - extent.end)\n        kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))\n        if os.fstat(descriptor).st_size != extent.end + len(lost):\n            raise JournalUnusable(path, 'it changes while its end is repaired: another program writes without the lock')\n        reason = fault or 'the last line is unfinished'\n        cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b'\\n'))\n        os.ftruncate(descriptor, extent.end)\n    disk.sync_file(descriptor)\n    disk.sync_folder(path)\n    return (extent, cut)",
        f"{OF_REPAIR}::test_opening_writes_the_end_once_more_before_it_syncs_it",
    ),
    Breakage(
        "good lines behind a bad one are destroyed by a repair",
        "_keep",
        "_write_new(name, lost, mode)",
        "name",
        f"{OF_REPAIR}::test_what_is_cut_is_kept_in_a_file_that_the_message_names",
    ),
    Breakage(
        "a repair cuts a good event",
        "repair",
        "os.ftruncate(descriptor, extent.end)",
        "os.ftruncate(descriptor, extent.end - 1)",
        "tests/fuzz/test_journal.py::test_a_repair_leaves_a_journal_and_cuts_no_good_event",
    ),
    Breakage(
        "a repair leaves what no reader counts",
        "repair",
        "if status.st_size > extent.end:\n    lost = read(extent.end, status.st_size - extent.end)\n    kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))\n    if os.fstat(descriptor).st_size != extent.end + len(lost):\n        raise JournalUnusable(path, 'it changes while its end is repaired: another program writes without the lock')\n    reason = fault or 'the last line is unfinished'\n    cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b'\\n'))\n    os.ftruncate(descriptor, extent.end)",
        "if status.st_size > extent.end:\n    lost = read(extent.end, status.st_size - extent.end)\n    kept = _keep(path, extent.end, lost, stat.S_IMODE(status.st_mode))\n    if os.fstat(descriptor).st_size != extent.end + len(lost):\n        raise JournalUnusable(path, 'it changes while its end is repaired: another program writes without the lock')\n    reason = fault or 'the last line is unfinished'\n    cut = Cut(extent.end, len(lost), reason, lost[:SHOWN_BYTES], kept, lost.count(b'\\n'))",
        "tests/fuzz/test_journal.py::test_a_repair_leaves_a_journal_and_cuts_no_good_event",
    ),
    Breakage(
        "somebody's other file is taken for a journal and cut",
        "survey",
        "extent.end == 0 and (not _may_become_line(buffer))",
        "extent.end == 0 and fault is not None and (not _may_become_line(buffer))",
        f"{OF_REPAIR}::test_what_does_not_begin_as_a_journal_is_left_alone",
    ),
    Breakage(
        "bare deltas are numbered from the wrong event",
        "append_all",
        "appender.head + 1",
        "max(appender.head, 0)",
        "tests/publisher/test_intake.py::test_bare_deltas_go_on_with_the_next_number",
    ),
    # Which lines count.
    Breakage(
        "a journal has a hole in it",
        "_consecutive",
        "seqs == list(wanted)",
        "seqs[:1] == [due]",
        f"{OF_EXTENT}::test_the_first_line_that_is_not_the_next_event_ends_the_journal",
    ),
    Breakage(
        "a second look goes on with any number",
        "extend",
        "events[0][0] if extent.end == 0 else extent.head + 1",
        "events[0][0]",
        f"{OF_EXTENT}::test_a_later_read_goes_on_with_the_next_number_alone",
    ),
    Breakage(
        "damage deep in a large journal is cut off with all that follows",
        "survey",
        "raise Damage(offset, tail)",
        "return (known, 'damage')",
        f"{OF_EXTENT}::test_damage_further_back_than_one_append_is_not_a_case_for_cutting",
    ),
    Breakage(
        "the event before the cursor is found for it",
        "find_line",
        "int(line[1]) <= seq",
        "int(line[1]) < seq",
        "tests/fuzz/test_journal.py::test_it_is_read_as_it_is_or_refused",
    ),
    Breakage(
        "a slice ends with a line whose number cannot be there",
        "cut_slice",
        "EVENT_BYTES_MIN",
        "0",
        f"{OF_EXTENT}::test_a_slice_with_an_end_that_cannot_be_is_damage",
    ),
    # What answers a RESUME.
    Breakage(
        "a cursor that lacks one event gets the next ones without a word",
        "answer",
        "extent.first - 1",
        "extent.first - 2",
        f"{OF_EXTENT}::test_what_answers_a_resume",
    ),
    Breakage(
        "a cursor ahead of the publisher waits for ever",
        "answer",
        'def answer(extent: Extent, last: int) -> Control | None:\n    """Say what answers a RESUME: None where the events after `last` are there or are still to come."""\n    if last > extent.head:\n        return Ahead(extent.head)\n    if last < extent.first - 1:\n        return extent.snapshot or Truncated(extent.first)\n    return None',
        'def answer(extent: Extent, last: int) -> Control | None:\n    """Say what answers a RESUME: None where the events after `last` are there or are still to come."""\n    if last < extent.first - 1:\n        return extent.snapshot or Truncated(extent.first)\n    return None',
        f"{OF_SERVER}::test_a_resume_that_cannot_be_served_is_answered_and_the_connection_closed",
    ),
    Breakage(
        "AHEAD is said of an event that is in the file",
        "Delivery._resume",
        "if last > self._followed.journal.extent.head or not self._follow:\n    await self._followed.catch_up()",
        "if last > self._followed.journal.extent.head or not self._follow:\n    pass",
        f"{OF_SERVER}::test_ahead_is_never_said_of_events_that_are_in_the_file",
    ),
    Breakage(
        "a consumer gets the event at its cursor again",
        "Delivery._place",
        "journal.find(self.sent + 1)",
        "journal.find(max(self.sent, 0))",
        f"{OF_SERVER}::test_what_follows_the_cursor_is_sent",
    ),
    # What a consumer says.
    Breakage(
        "an ACK for what was never sent moves a cursor",
        "Delivery._take",
        "highest > self.sent",
        "highest > self.sent + 1",
        f"{OF_SERVER}::test_an_ack_for_what_was_never_sent_ends_that_connection_alone",
    ),
    Breakage(
        "what is no ACK is passed over",
        "Delivery._take",
        "malformed is not None",
        "malformed is seqs",
        f"{OF_SERVER}::test_what_is_no_ack_ends_the_connection",
    ),
    Breakage(
        "an ACK that is cut by two reads is none",
        "Delivery._take",
        "self._rest + data",
        "data",
        f"{OF_SERVER}::test_acks_may_come_in_any_pieces_again_and_out_of_order",
    ),
    Breakage(
        "a flood of ACKs is taken for ever",
        "Delivery._take",
        "self._acks_left < 0",
        "self._acks_left < -10 ** 12",
        f"{OF_SERVER}::test_a_flood_of_repeated_acks_ends_the_connection",
    ),
    Breakage(
        "there is no window: everything is sent to a consumer that acknowledges nothing",
        "Delivery._send",
        "self.cursor + self._window",
        "self.cursor + 1000 * self._window",
        f"{OF_SERVER}::test_no_more_than_the_window_is_unacknowledged",
    ),
    Breakage(
        "a RESUME without an end is taken for ever",
        "Delivery._resume",
        "b'\\n' not in buffer and len(buffer) < LINE_BYTES_MAX",
        "b'\\n' not in buffer",
        f"{OF_SERVER}::test_what_is_no_resume_ends_the_connection",
    ),
    Breakage(
        "a consumer that never acknowledges keeps its place for ever",
        "Delivery._watch",
        "silent_s >= self._limits.silence_s",
        "silent_s >= 1000 * self._limits.silence_s",
        f"{OF_SERVER}::test_silence_while_events_are_unacknowledged_ends_the_connection",
    ),
    Breakage(
        "repeated ACKs count as progress",
        "Delivery._take",
        "highest > self.cursor",
        "highest >= self.cursor",
        f"{OF_SERVER}::test_repeated_acks_are_no_progress",
    ),
    # Others beside it, and a journal that is replaced.
    Breakage(
        "any number of connections is taken",
        "Publisher._accept",
        "len(self._deliveries) >= self._connections_max",
        "len(self._deliveries) >= 1000 * self._connections_max",
        f"{OF_SERVER}::test_beyond_the_limit_on_connections_a_new_one_is_closed",
    ),
    Breakage(
        "a replaced journal is read on from the old place",
        "FollowedJournal._look",
        "if look.replaced:\n    renewed = await asyncio.to_thread(JournalReader, self.journal.path)\n    self.journal = renewed\n    self.generation += 1\n    _log.warning('the journal was replaced; it holds %s now', renewed.extent)",
        "if look.replaced:\n    renewed = await asyncio.to_thread(JournalReader, self.journal.path)\n    self.journal = renewed\n    _log.warning('the journal was replaced; it holds %s now', renewed.extent)",
        f"{OF_SERVER}::test_a_journal_that_was_replaced_goes_on_where_the_consumer_is",
    ),
    Breakage(
        "a journal that lost events is served on",
        "JournalReader._take_in",
        "self._lost_events()",
        "self.extent.end < 0",
        f"{OF_SERVER}::test_a_journal_that_lost_events_in_place_is_no_longer_served_to_those_who_had_them",
    ),
    # Seen failing: the tests that look for what nobody thought of.
    Breakage(
        "a damaged snapshot line hides the events behind it",
        "_begin",
        "(EMPTY, buffer)",
        "(EMPTY, buffer[buffer.find(b'\\n') + 1:])",
        "tests/fuzz/test_journal.py::test_it_is_read_as_it_is_or_refused",
    ),
    Breakage(
        "a control frame in the middle of a journal is counted in",
        "extend",
        "buffer.rfind(b'\\n', 0, size - 1) + 1",
        "size",
        "tests/fuzz/test_journal.py::test_what_is_added_is_taken_in_up_to_the_first_bad_line",
    ),
    Breakage(
        "an ACK that comes with RESUME in one packet is lost",
        "Delivery._receive",
        'async def _receive(self, channel: Channel, buffer: bytes) -> None:\n    """Read ACKs until the consumer closes its side."""\n    self._take(buffer)\n    await channel.receive_all(self._take)\n    self._left = True\n    self._news.set()',
        'async def _receive(self, channel: Channel, buffer: bytes) -> None:\n    """Read ACKs until the consumer closes its side."""\n    await channel.receive_all(self._take)\n    self._left = True\n    self._news.set()',
        "tests/fuzz/test_handshake.py::test_whatever_is_said_ends_with_a_reason_and_others_are_served",
    ),
    Breakage(
        "a RESUME with a line feed too late is taken",
        "Delivery._resume",
        "line + newline",
        "line.strip() + b'\\n'",
        "tests/fuzz/test_handshake.py::test_whatever_is_said_ends_with_a_reason_and_others_are_served",
    ),
    Breakage(
        "a repair destroys what another program appends meanwhile",
        "repair",
        "os.fstat(descriptor).st_size != extent.end + len(lost)",
        "os.fstat(descriptor).st_size < extent.end",
        "tests/publisher/test_repair.py::test_what_another_program_adds_meanwhile_is_not_cut",
    ),
)
