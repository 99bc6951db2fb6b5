"""Mistakes on the way from the socket to the database and back: feed, inbox, worker, supervision, what is retried."""

from tests.mutants.breakage import Breakage

SERVICE, SESSION, CALLS = "consumer/runtime/consumer.py", "consumer/runtime/session.py", "consumer/runtime/calls.py"
FEED, INBOX = "consumer/sources/tcp/connection.py", "consumer/runtime/inbox.py"
WORKER, RETRY, TLS, STREAMS = (
    "consumer/runtime/worker.py",
    "consumer/store/retry.py",
    "consumer/sources/tcp/tls.py",
    "consumer/sources/tcp/streams.py",
)

CONSUMING = "tests/runtime/test_consuming.py"
SUPERVISION = "tests/runtime/test_supervision.py"
STOPPING = "tests/runtime/test_stopping.py"
BOUNDS = "tests/runtime/test_bounds.py"
OF_RETRY = "tests/store/test_retry.py"
OF_INBOX = "tests/runtime/test_inbox.py"

BREAKAGES = (
    # Commit before ACK.
    Breakage(
        "ACK before commit",
        "Sessions._apply",
        "return await self._calls.change(lambda: self._store.apply(events, self._handler), acknowledge)",
        "connection.acknowledge(events.seqs)\nreturn await self._calls.change(lambda: self._store.apply(events, self._handler), acknowledge)",
        f"{CONSUMING}::test_nothing_is_acknowledged_while_the_transaction_is_open",
    ),
    Breakage(
        "an event that could not be applied is acknowledged with its batch",
        "Sessions._apply.acknowledge",
        "events[:outcome.acked]",
        "events",
        f"{SUPERVISION}::test_what_precedes_a_conflict_is_applied_and_acknowledged",
    ),
    Breakage(
        "duplicates are not acknowledged again",
        "Sessions._apply.acknowledge",
        "events[:outcome.acked]",
        "events[outcome.acked - outcome.new:outcome.acked]",
        f"{CONSUMING}::test_events_that_come_again_are_acknowledged_again_and_not_counted",
    ),
    Breakage(
        "what was queued from a broken connection is applied for the next one",
        "runtime.session:_read",
        "inbox.close(error, drop=True)",
        "inbox.close(error)",
        f"{CONSUMING}::test_what_was_queued_from_a_broken_connection_is_dropped_and_comes_again",
    ),
    Breakage(
        "acknowledgements are lost with a close",
        "PublisherConnection.__aexit__",
        "await self._take_leave()",
        "None",
        f"{STOPPING}::test_a_publisher_that_is_still_sending_when_the_consumer_leaves_gets_its_acknowledgements",
    ),
    # RESUME from the database.
    Breakage(
        "RESUME from memory",
        "Sessions.run",
        "await self._calls.read(self._store.resume)",
        "await self._calls.read(self._store.resume) if self._progress.last is None else self._progress.last",
        f"{CONSUMING}::test_it_says_the_cursor_of_the_database_at_each_connection",
    ),
    Breakage(
        "RESUME is one behind",
        "PublisherConnection.connect",
        "encode_resume(last)",
        "encode_resume(max(-1, last - 1))",
        f"{CONSUMING}::test_it_says_the_cursor_of_the_database_at_each_connection",
    ),
    # Bytes, whole and torn.
    Breakage(
        "an event that is cut by two reads is lost",
        "PublisherConnection.read",
        "self._rest + data",
        "data",
        f"{BOUNDS}::test_an_event_cut_anywhere_between_two_reads_is_whole",
    ),
    Breakage(
        "a frame that was cut by the end of the connection is a good end",
        "PublisherConnection._check_end",
        "if self._rest:\n    how = 'answers in TLS; give tls://' if tls.is_alert(self._rest) else 'closed in the middle of a frame'\n    raise ConnectionResetError(f'{self._address} {how}')",
        "",
        f"{SUPERVISION}::test_once_does_not_take_a_cut_frame_for_the_end",
    ),
    Breakage(
        "a publisher that lost events looks like one with a shorter history",
        "PublisherConnection._meaning",
        "CursorAhead(self._last, head)",
        "ResyncRequired(self._last, head)",
        f"{SUPERVISION}::test_an_answer_that_trying_again_does_not_change_is_final",
    ),
    Breakage(
        "the queue has no bound",
        "Inbox.put",
        "len(self._numbers) >= 2 * self._events_max",
        "len(self._numbers) < 0",
        f"{OF_INBOX}::test_putting_waits_while_there_is_no_room",
    ),
    Breakage(
        "events are taken from the queue twice",
        "Inbox.take",
        "del self._numbers[:2 * count_max]",
        "del self._numbers[:count_max]",
        f"{OF_INBOX}::test_events_come_out_in_the_order_of_their_arrival_as_many_as_are_asked_for",
    ),
    Breakage(
        "a cut frame goes on in the next connection",
        "PublisherConnection.__init__",
        "self._rest = b''",
        "self._rest = b'EVENT'",
        f"{BOUNDS}::test_what_a_broken_connection_left_half_read_does_not_reach_the_next",
    ),
    # What is retried, and what is final.
    Breakage(
        "history that is gone is a gap to come back for",
        "_explain",
        "isinstance(outcome.error, Gap) and is_first and (outcome.acked == 0)",
        "isinstance(outcome.error, Gap) and (not is_first) and (outcome.acked == 0)",
        f"{SUPERVISION}::test_a_gap_after_a_reconnect_to_a_publisher_that_honours_resume_is_lost_history",
    ),
    Breakage(
        "a gap in the middle is reported as lost history",
        "_explain",
        "isinstance(outcome.error, Gap) and is_first and (outcome.acked == 0)",
        "isinstance(outcome.error, Gap) and outcome.acked == 0",
        f"{SUPERVISION}::test_a_gap_in_a_later_batch_is_a_gap_too_and_no_lost_history",
    ),
    Breakage(
        "garbage is asked for again without end",
        "Failures.final",
        "self._others >= TRIES",
        "self._others >= TRIES * 1000",
        f"{SUPERVISION}::test_garbage_is_final_the_third_time",
    ),
    Breakage(
        "duplicates count as progress",
        "Sessions._apply.acknowledge",
        "if outcome.new:\n    self._progress.commits += 1\n    self._failures.progressed()",
        "if outcome.acked:\n    self._progress.commits += 1\n    self._failures.progressed()",
        f"{SUPERVISION}::test_duplicates_are_no_progress",
    ),
    Breakage(
        "three failures in a year end a consumer",
        "Sessions._apply.acknowledge",
        "self._failures.progressed()",
        "None",
        f"{SUPERVISION}::test_progress_between_failures_starts_the_count_anew",
    ),
    Breakage(
        "a cursor that another consumer has moved ends this one",
        "Sessions._was_moved_on",
        "(await self._calls.read(self._store.state)).last > last",
        "(await self._calls.read(self._store.state)).last < last",
        f"{SUPERVISION}::test_history_that_is_gone_for_a_cursor_that_was_moved_meanwhile_is_no_reason_to_end",
    ),
    Breakage(
        "a publisher that waits for our acknowledgements looks dead",
        "session:_read",
        "inbox.is_awaited",
        "inbox is not None",
        f"{SUPERVISION}::test_a_publisher_that_waits_for_a_slow_handler_is_not_idle",
    ),
    Breakage(
        "the idle clock does not start anew with an acknowledgement",
        "PublisherConnection._receive",
        "self._acknowledged_at + self._timeout",
        "self._timeout",
        f"{SUPERVISION}::test_the_idle_clock_starts_anew_with_an_acknowledgement",
    ),
    Breakage(
        "a broken connection ends the consumer",
        "patience",
        "Retry | SyncFailed | DatabaseReadOnly | CommitUnconfirmed | ConnectionError",
        "Retry | SyncFailed | DatabaseReadOnly | CommitUnconfirmed",
        f"{SUPERVISION}::test_a_reset_connection_is_made_again",
    ),
    Breakage(
        "PostgreSQL: a deadlock is taken for a bad event",
        "cause_of_code",
        "CLASSES.get(code[:2], LASTING)",
        "LASTING if code == '40P01' else CLASSES.get(code[:2], LASTING)",
        "tests/store/test_failures.py::test_a_deadlock_inside_a_handler_passes",
    ),
    Breakage(
        "SQLite: a full disk is final",
        "sqlite:",
        "{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}",
        "{sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}",
        f"{SUPERVISION}::test_a_full_database_is_waited_for",
    ),
    Breakage(
        "PostgreSQL: a violated deferred constraint is tried for ever",
        "Store._commit",
        "cause_of(error) is not Cause.CONTENT",
        "error",
        "tests/store/test_handlers.py::test_a_deferred_foreign_key_that_is_violated_at_the_commit_fails_the_event",
    ),
    Breakage(
        "a conflict is tried for ever",
        "patience",
        "Patience.NEVER",
        "Patience.FOREVER",
        f"{OF_RETRY}::test_what_does_not_is_final",
    ),
    # Stopping.
    Breakage(
        "what a stop has let commit is not acknowledged",
        "Calls.change",
        "if call.error is not None:\n    self._notify(FailedAtStop(call.error))\nelse:\n    use(call.result())",
        "if call.error is not None:\n    self._notify(FailedAtStop(call.error))",
        f"{STOPPING}::test_a_stop_lets_the_commit_in_flight_end_and_acknowledges_it",
    ),
    Breakage(
        "a forced stop interrupts nothing",
        "Calls._interrupt_until_done",
        "await asyncio.to_thread(self._interrupt)",
        "None",
        f"{STOPPING}::test_a_forced_stop_interrupts_a_statement_and_nothing_of_its_batch_stays",
    ),
    Breakage(
        "a handler that never returns holds up a stop for ever",
        "Calls._interrupt_until_done",
        "patience_s if self._stop.asked.is_set() else math.inf",
        "patience_s if self._stop.forced.is_set() else math.inf",
        f"{STOPPING}::test_a_handler_that_never_returns_is_left_behind_after_the_stop_timeout",
    ),
    Breakage(
        "a cancelled consumer leaves its call behind in the database",
        "Calls.change",
        "await self._interrupt_until_done(call, FORCE_GRACE_S)",
        "None",
        f"{STOPPING}::test_a_cancelled_run_interrupts_the_database_and_waits_for_it",
    ),
    Breakage(
        "a cancellation is hidden by a timeout that has just expired",
        "cancel",
        "task.cancel()",
        "task.cancelling() or task.cancel()",
        f"{STOPPING}::test_a_task_whose_timeout_has_just_expired_is_cancelled_all_the_same",
    ),
    Breakage(
        "a cancelled consumer does not wait for its handler",
        "Calls._interrupt_until_done",
        "self._stop.asked.is_set() and self._stop.forced.is_set()",
        "self._stop.forced.is_set()",
        f"{STOPPING}::test_a_cancelled_run_waits_for_its_handler_however_long_that_takes",
    ),
    Breakage(
        "a stop waits for somebody else's lock",
        "Calls.read",
        "await self._interrupt_until_done(call, self._stop_timeout_s + FORCE_GRACE_S)",
        "await self._wait_until_forced(call), await self._interrupt_until_done(call, self._stop_timeout_s + FORCE_GRACE_S)",
        f"{STOPPING}::test_a_stop_ends_a_wait_for_somebody_elses_lock",
    ),
    Breakage(
        "a stop interrupts the statement in flight at once",
        "Call.wait",
        "self._waiter.cancelled()",
        "self._waiter is None",
        f"{STOPPING}::test_a_stop_does_not_interrupt_the_statement_in_flight",
    ),
    Breakage(
        "a peer that never closes holds up a close",
        "close_writer",
        "async with asyncio.timeout(timeout):\n    await writer.wait_closed()",
        "await writer.wait_closed()",
        "tests/contract/test_consume_session.py"
        "::test_a_close_that_hangs_is_aborted_after_timeout_and_the_success_stays",
    ),
    # Who is on the other end.
    Breakage(
        "the publisher's certificate is not verified",
        "TLS.context",
        "context.minimum_version = ssl.TLSVersion.TLSv1_2",
        "context.check_hostname = False\ncontext.verify_mode = ssl.CERT_NONE",
        "tests/runtime/test_tls.py::test_a_certificate_that_is_not_accepted_is_final",
    ),
    Breakage(
        "any name in the certificate will do",
        "TLS.context",
        "context.minimum_version = ssl.TLSVersion.TLSv1_2",
        "context.check_hostname = False",
        "tests/runtime/test_tls.py::test_a_certificate_that_is_not_accepted_is_final",
    ),
    Breakage(
        "a process ends with the exit code of another error",
        "exits:",
        "10",
        "1",
        "tests/faults/test_exit_codes.py::test_an_answer_that_cannot_be_consumed",
    ),
)
