"""Mistakes about records and their sources: what is the same content, what is new, and what a file is."""

from tests.mutants.breakage import Breakage

RECORDS, RULE, RUNS = "consumer/core/records.py", "consumer/core/rule.py", "consumer/core/runs.py"
READER, OPENED, FILE = (
    "consumer/sources/file/reader.py",
    "consumer/sources/file/opened.py",
    "consumer/sources/file/source.py",
)
REGISTRY = "consumer/sources/registry.py"

OF_RECORDS = "tests/core/test_records.py"
OF_RULE = "tests/core/test_rule.py"
OF_LINES = "tests/sources/file/test_lines.py"
OF_CHANGES = "tests/sources/file/test_changes.py"
OF_REGISTRY = "tests/sources/test_registry.py"
CHECKED = "tests/testing/test_check_source.py"

BREAKAGES = (
    Breakage(
        "no key and an empty key are the same content",
        "digests",
        "-1 if key is None else len(key)",
        "len(key or b'')",
        f"{OF_RECORDS}::test_what_is_different_has_different_digests",
    ),
    Breakage(
        "a header without a value and one with an empty value are the same content",
        "_framed",
        "-1 if value is None else len(value)",
        "len(value or b'')",
        f"{OF_RECORDS}::test_a_digest_never_changes_its_definition",
    ),
    Breakage(
        "the subject is not in the digest",
        "digests",
        "lengths + topic",
        "lengths",
        f"{OF_RECORDS}::test_what_is_different_has_different_digests",
    ),
    Breakage(
        "a checksum grows beyond what a store holds",
        "checksum",
        "sum(map(int.from_bytes, found), before) % CHECKSUM_MODULUS",
        "sum(map(int.from_bytes, found), before)",
        f"{OF_RECORDS}::test_a_checksum_stays_within_what_a_store_holds",
    ),
    Breakage(
        "a bad record's message repeats its content",
        "Record.json",
        "f'its content is no JSON: {_without_content(error)}'",
        "f'its content is no JSON: {self.data!r}'",
        f"{OF_RECORDS}::test_content_that_is_no_json_is_a_bad_record_whose_message_does_not_repeat_it",
    ),
    Breakage(
        "a run that leaves records out is no gap",
        "judge_run",
        "run.after > cursor.through",
        "run.records and run.records[0].seq > cursor.through + 1000",
        f"{OF_RULE}::test_a_run_that_follows_what_is_not_settled_is_a_gap",
    ),
    Breakage(
        "the record at the cursor is not compared",
        "judge_run",
        "cursor.digest is not None",
        "cursor.digest is False",
        f"{OF_RULE}::test_another_history_is_a_conflict",
    ),
    Breakage(
        "a record where the source had vouched for none passes for a duplicate",
        "_compare",
        "record.seq != cursor.last",
        "record.seq < cursor.last",
        f"{OF_RULE}::test_another_history_is_a_conflict",
    ),
    Breakage(
        "a run from before a move is applied",
        "judge_run",
        "run.generation != cursor.generation or not cursor.is_fed",
        "not cursor.is_fed",
        f"{OF_RULE}::test_a_run_of_a_placement_that_holds_no_more_is_dropped",
    ),
    Breakage(
        "a paused stream goes on",
        "judge_run",
        "run.generation != cursor.generation or not cursor.is_fed",
        "run.generation != cursor.generation",
        f"{OF_RULE}::test_a_run_of_a_placement_that_holds_no_more_is_dropped",
    ),
    Breakage(
        "another stream of the same name is consumed on",
        "place",
        "known != found",
        "not found",
        f"{OF_RULE}::test_a_stream_that_cannot_be_started_is_refused_for_the_first_reason",
    ),
    Breakage(
        "records that retention has taken are passed over",
        "place",
        "cursor.through + 1",
        "offer.head + 1",
        f"{OF_RULE}::test_a_stream_that_cannot_be_started_is_refused_for_the_first_reason",
    ),
    Breakage(
        "a stream that ends before the cursor is waited for",
        "place",
        "offer.head < cursor.through",
        "offer.head < -1",
        f"{OF_RULE}::test_a_stream_that_cannot_be_started_is_refused_for_the_first_reason",
    ),
    Breakage(
        "a source starts behind the cursor, so that nothing is compared",
        "place",
        "cursor.digest is not None and offer.first <= cursor.last",
        "False",
        f"{OF_RULE}::test_a_stream_is_started_at_its_last_record_where_that_can_be_compared",
    ),
    Breakage(
        "an identity that is first known is not bound to",
        "place",
        "found if known is None else known",
        "known",
        f"{OF_RULE}::test_an_identity_that_is_not_known_equals_any_and_is_bound_to_when_first_known",
    ),
    Breakage(
        "a run without records does not carry the cursor over a hole",
        "judge_run",
        "RunPlan(replace(cursor, through=run.through, token=token), (), duplicates=known)",
        "RunPlan(cursor, (), duplicates=known)",
        f"{OF_RULE}::test_what_is_new_in_a_run",
    ),
    Breakage(
        "a run that was cut keeps the token of its end",
        "Run.split",
        "replace(self, records=self.records[:count], through=seq - 1, token=None)",
        "replace(self, records=self.records[:count], through=seq - 1)",
        "tests/core/test_runs.py::test_only_the_end_of_a_run_has_its_token",
    ),
    Breakage(
        "what was read of a file is handed out before it is on the disk",
        "Reader._read_on",
        'def _read_on(self, placed: Placed, data: bytes) -> Sequence[Run | Failed] | Nothing:\n    """Go on by the complete lines in it; where there is none, the line that comes next cannot be read."""\n    given, known, at = self._lines(placed, data)\n    self._opened.sync(at)\n    if not self._is_as_it_was(placed):\n        return Nothing.CHANGED\n    placed.at, placed.known = (at, known)\n    if isinstance(given[-1], Run):\n        placed.after = given[-1].through\n    return given',
        'def _read_on(self, placed: Placed, data: bytes) -> Sequence[Run | Failed] | Nothing:\n    """Go on by the complete lines in it; where there is none, the line that comes next cannot be read."""\n    given, known, at = self._lines(placed, data)\n    if not self._is_as_it_was(placed):\n        return Nothing.CHANGED\n    placed.at, placed.known = (at, known)\n    if isinstance(given[-1], Run):\n        placed.after = given[-1].through\n    return given',
        f"{OF_CHANGES}::test_what_is_handed_out_is_on_the_disk",
    ),
    Breakage(
        "a file that has become another one is read on",
        "Reader._read_on",
        'def _read_on(self, placed: Placed, data: bytes) -> Sequence[Run | Failed] | Nothing:\n    """Go on by the complete lines in it; where there is none, the line that comes next cannot be read."""\n    given, known, at = self._lines(placed, data)\n    self._opened.sync(at)\n    if not self._is_as_it_was(placed):\n        return Nothing.CHANGED\n    placed.at, placed.known = (at, known)\n    if isinstance(given[-1], Run):\n        placed.after = given[-1].through\n    return given',
        'def _read_on(self, placed: Placed, data: bytes) -> Sequence[Run | Failed] | Nothing:\n    """Go on by the complete lines in it; where there is none, the line that comes next cannot be read."""\n    given, known, at = self._lines(placed, data)\n    self._opened.sync(at)\n    placed.at, placed.known = (at, known)\n    if isinstance(given[-1], Run):\n        placed.after = given[-1].through\n    return given',
        f"{OF_CHANGES}::test_what_was_read_of_a_file_that_changes_meanwhile_is_not_handed_out",
    ),
    Breakage(
        "a file that was replaced is never looked at",
        "OpenFile.state",
        'def state(self) -> State | None:\n    """Look at the file; None where the name leads to another one. Raises `OSError`."""\n    named = os.stat(self._address.path)\n    opened = os.fstat(self._descriptor)\n    if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):\n        return None\n    return State(opened.st_dev, opened.st_ino, opened.st_size, opened.st_mtime_ns)',
        'def state(self) -> State | None:\n    """Look at the file; None where the name leads to another one. Raises `OSError`."""\n    named = os.stat(self._address.path)\n    opened = os.fstat(self._descriptor)\n    return State(opened.st_dev, opened.st_ino, opened.st_size, opened.st_mtime_ns)',
        f"{OF_CHANGES}::test_a_file_that_was_replaced_by_the_same_with_more_goes_on",
    ),
    Breakage(
        "the first line of a file may change",
        "OpenFile.begins_as_before",
        "self.pread(len(self._begin), 0) == self._begin",
        "True",
        f"{OF_CHANGES}::test_another_file_or_a_shorter_one_is_offered_as_what_it_is",
    ),
    Breakage(
        "the last line that was read may change",
        "Reader._is_as_it_was",
        "placed.known is None",
        "True",
        f"{OF_CHANGES}::test_where_the_last_line_is_another_one_it_comes_to_a_conflict",
    ),
    Breakage(
        "a file that has become shorter is read on where it is longer again",
        "Reader._look",
        "state is None or state.size <= placed.position.through or state.size < max(placed.at or 0, self._end or 0)",
        "state is None",
        f"{OF_CHANGES}::test_a_file_that_has_become_shorter_than_its_position_is_offered_as_what_it_is",
    ),
    Breakage(
        "a cursor within a line has the rest of it read as a record",
        "Reader._look",
        "self._line_after(placed.after)",
        "placed.position.start",
        f"{OF_LINES}::test_a_position_is_where_it_goes_on",
    ),
    Breakage(
        "a cursor within the last line never comes to the head",
        "Reader._find_nothing",
        "placed.after < end - 1",
        "False",
        f"{OF_LINES}::test_a_position_in_the_last_line_is_carried_to_its_end",
    ),
    Breakage(
        "once goes on to a line that was finished after it was opened",
        "Reader._find_nothing",
        "placed.at <= self._end",
        "True",
        f"{OF_LINES}::test_once_a_position_in_a_line_that_was_finished_later_goes_no_further",
    ),
    Breakage(
        "a line that is too large is read",
        "Reader._lines",
        "max(sizes) > self._record_max",
        "False",
        f"{OF_LINES}::test_a_line_that_is_too_large_is_named_behind_what_precedes_it",
    ),
    Breakage(
        "lines that are large fill the memory",
        "Reader._read",
        "data[:end] if end and wanted > self._read_bytes else data",
        "data",
        f"{OF_LINES}::test_what_is_read_at_once_is_bounded_in_memory",
    ),
    Breakage(
        "once reads what was appended after it was opened",
        "Reader._read",
        "wanted if self._end is None else max(0, min(wanted, self._end - at))",
        "wanted",
        f"{OF_LINES}::test_once_ends_at_the_end_that_was_there_when_it_was_opened",
    ),
    Breakage(
        "what a cancelled read had begun is lost",
        "_Session._look_at",
        "await asyncio.wait((looking,))\nself._look = None",
        "self._look = None\nawait asyncio.wait((looking,))",
        f"{CHECKED}::test_the_file_source_passes",
    ),
    Breakage(
        "a file that was placed anew goes on where it was",
        "_Session.read",
        "while True:\n    if self._opening is not None:\n        await asyncio.wait((self._opening,))\n        offer = self._opening.result()\n        self._opening = None\n        return (Assigned((offer,)),)\n    placed = self._placed\n    if placed is None:\n        if self._is_decided and self._reader.is_once:\n            return ()\n        await self._wait_for_placement(None)\n        continue\n    found = await self._look_at(placed)\n    if placed is not self._placed:\n        continue\n    if found is Nothing.LEFT:\n        return ()\n    if found is Nothing.CHANGED:\n        self._offer()\n    elif found is Nothing.NEW:\n        await self._wait_for_placement(POLL_S)\n    else:\n        if isinstance(found[-1], Failed):\n            self._placed = None\n        return found",
        "while True:\n    if self._opening is not None:\n        await asyncio.wait((self._opening,))\n        offer = self._opening.result()\n        self._opening = None\n        return (Assigned((offer,)),)\n    placed = self._placed\n    if placed is None:\n        if self._is_decided and self._reader.is_once:\n            return ()\n        await self._wait_for_placement(None)\n        continue\n    found = await self._look_at(placed)\n    if found is Nothing.LEFT:\n        return ()\n    if found is Nothing.CHANGED:\n        self._offer()\n    elif found is Nothing.NEW:\n        await self._wait_for_placement(POLL_S)\n    else:\n        if isinstance(found[-1], Failed):\n            self._placed = None\n        return found",
        f"{OF_CHANGES}::test_a_placement_during_a_look_counts",
    ),
    Breakage(
        "another package takes a built-in scheme",
        "_factory",
        "scheme in BUILT_IN",
        "scheme in BUILT_IN and (not entry_points(group=GROUP, name=scheme))",
        f"{OF_REGISTRY}::test_a_built_in_scheme_cannot_be_taken",
    ),
)
