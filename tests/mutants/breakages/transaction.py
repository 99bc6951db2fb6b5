"""Mistakes in the one transaction of a batch, in its handler, in what makes it durable and what is said of it."""

from tests.mutants.breakage import Breakage

STORE, BACKEND, HANDLERS = "consumer/store.py", "consumer/backend.py", "consumer/handlers.py"
ENGINE, RULE, SQL = "consumer/engine.py", "consumer/rule.py", "consumer/sql.py"

CRASH_POINTS = "tests/store/test_crash_points.py"
CONCURRENCY = "tests/store/test_concurrency.py"
DURABILITY = "tests/store/test_durability.py"
FAILURES = "tests/store/test_failures.py"
OUTCOME = "tests/store/test_outcome.py"
BISECTION = "tests/store/test_bisection.py"
OF_HANDLERS = "tests/store/test_handlers.py"

BREAKAGES = (
    # One transaction.
    Breakage(
        "the cursor moves in a transaction of its own",
        STORE,
        "        moved = driver.execute(self._move_cursor",
        "        driver.commit(); moved = driver.execute(self._move_cursor",
        f"{CRASH_POINTS}::test_an_error_at_any_point_leaves_the_state_before_or_after",
    ),
    Breakage(
        "PostgreSQL: the ledger's rows are in a transaction of their own",
        BACKEND,
        "            inserted: int = cursor.rowcount\n",
        "            inserted: int = cursor.rowcount; driver.commit()\n",
        f"{CRASH_POINTS}::test_an_error_at_any_point_leaves_the_state_before_or_after",
    ),
    Breakage(
        "the handler's changes are committed before the cursor",
        STORE,
        "                    self._backend.settle(connection)\n",
        "                    driver.commit()\n",
        f"{CRASH_POINTS}::test_an_error_at_any_point_leaves_the_state_before_or_after",
    ),
    Breakage(
        "a batch is acknowledged that was never committed",
        STORE,
        "                self._commit(connection, before, plan.new)\n",
        "                connection.rollback()\n",
        f"{OUTCOME}::test_a_batch_of_any_size_is_applied_whole",
    ),
    Breakage(
        "after an error of COMMIT the connection is used again",
        STORE,
        "            self._discard()\n            if",
        "            if",
        f"{FAILURES}::test_after_an_error_of_commit_the_connection_goes_and_the_events_are_decided_anew",
    ),
    Breakage(
        "a batch of a size that fills no INSERT loses its last events",
        BACKEND,
        "        if len(events) > start:\n",
        "        if len(events) > start + 1:\n",
        f"{OUTCOME}::test_a_batch_of_any_size_is_applied_whole",
    ),
    Breakage(
        "PostgreSQL: a large batch is copied without its deltas' signs",
        BACKEND,
        "% tuple(events.numbers))",
        "% tuple(map(abs, events.numbers)))",
        f"{OUTCOME}::test_a_batch_of_any_size_is_applied_whole",
    ),
    Breakage(
        "a total is set instead of added to",
        SQL,
        "values(total=checkpoint.c.total + bindparam",
        "values(total=bindparam",
        f"{OUTCOME}::test_duplicates_are_acknowledged_and_not_handled_again",
    ),
    # The lock, and the compare-and-set besides.
    Breakage(
        "PostgreSQL: no lock, two consumers judge by the same cursor",
        STORE,
        "compiled(sql.READ_STATE.with_for_update())",
        "compiled(sql.READ_STATE)",
        f"{CONCURRENCY}::test_the_second_waits_for_the_first_and_finds_its_events_there",
    ),
    Breakage(
        "SQLite: no lock before the first write",
        ENGINE,
        'get(BEGIN_STATEMENT, "BEGIN IMMEDIATE")',
        'get(BEGIN_STATEMENT, "BEGIN DEFERRED")',
        f"{CONCURRENCY}::test_the_second_waits_for_the_first_and_finds_its_events_there",
    ),
    Breakage(
        "PostgreSQL: the server's isolation level makes the second consumer fail instead of wait",
        ENGINE,
        'isolation_level="READ COMMITTED"',
        'isolation_level="REPEATABLE READ"',
        f"{CONCURRENCY}::test_the_second_waits_for_the_first_and_finds_its_events_there",
    ),
    Breakage(
        "the cursor is set without comparing it",
        SQL,
        "MOVE_CURSOR.where(checkpoint.c.last == bindparam(",
        "MOVE_CURSOR.where(checkpoint.c.last <= bindparam('seq') + 0 * bindparam(",
        f"{CONCURRENCY}::test_a_consumer_whose_lock_does_not_hold_is_fenced_off",
    ),
    Breakage(
        "nobody looks whether the cursor was moved",
        STORE,
        "if (inserted, counted, moved) != (len(new), 1, 1):",
        "if (inserted, counted) != (len(new), 1):",
        f"{CONCURRENCY}::test_whoever_meddles_with_the_store_fences_it_off",
    ),
    Breakage(
        "nobody looks whether all rows were inserted",
        STORE,
        "if (inserted, counted, moved) != (len(new), 1, 1):",
        "if (counted, moved) != (1, 1):",
        f"{CONCURRENCY}::test_whoever_meddles_with_the_store_fences_it_off",
    ),
    Breakage(
        "SQLite: a lock that will be given back is an error",
        STORE,
        "if not is_busy(error) or not remaining:",
        "if is_busy(error) or not remaining:",
        f"{CONCURRENCY}::test_a_lock_that_is_given_back_while_it_is_waited_for_is_taken",
    ),
    # Recognition by content.
    Breakage(
        "a duplicate is not compared with what was recorded",
        RULE,
        "if recorded != delta:",
        "if recorded is None:",
        f"{OUTCOME}::test_what_precedes_a_wrong_event_is_committed_and_may_be_acknowledged",
    ),
    Breakage(
        "a number below the cursor that the ledger does not hold is taken for a duplicate",
        RULE,
        "if recorded != delta:",
        "if recorded not in {None, delta}:",
        f"{OUTCOME}::test_an_event_below_the_cursor_that_the_ledger_does_not_hold_is_a_conflict",
    ),
    Breakage(
        "an event is applied although its predecessor is missing",
        RULE,
        "        raise Gap(last + 1, seq)\n",
        "        return Verdict.NEW\n",
        f"{OUTCOME}::test_a_wrong_event_in_front_changes_nothing",
    ),
    Breakage(
        "a gap in the middle of a batch goes unseen",
        RULE,
        "valid.continue_after(last):",
        "valid.seqs[:1] == [last + 1]:",
        "tests/unit/test_rule.py::test_a_batch_ends_before_the_first_event_that_is_wrong",
    ),
    Breakage(
        "an event that comes twice in one batch is a conflict",
        RULE,
        "            ledger[seq] = delta\n",
        "",
        "tests/unit/test_rule.py::test_a_batch_ends_before_the_first_event_that_is_wrong",
    ),
    Breakage(
        "the event at the cursor itself is looked up nowhere",
        RULE,
        "if is_integer(seq, 0, last)}",
        "if is_integer(seq, 0, last - 1)}",
        "tests/store/test_equality.py::test_large_batches_with_disturbances_equal_it_too",
    ),
    # The handler.
    Breakage(
        "the handler runs outside of the savepoint",
        STORE,
        "call_inside_savepoint(handler, connection, before, plan.new)",
        "handler(connection, list(plan.new))",
        f"{OF_HANDLERS}::test_a_rollback_sent_to_postgresql_is_found",
    ),
    Breakage(
        "nobody looks whether the savepoint can be released",
        HANDLERS,
        "    if not _ends(savepoint, savepoint.commit) or connection.info is not info:",
        "    if connection.info is not info:",
        f"{OF_HANDLERS}::test_a_rollback_hidden_in_a_statement_of_sqlite_is_found",
    ),
    Breakage(
        "SQLAlchemy's commit is not refused to a handler",
        HANDLERS,
        "    if connection.info.get(IN_HANDLER, False):\n        raise RuntimeError(",
        "    if connection.info.get('', False):\n        raise RuntimeError(",
        f"{OF_HANDLERS}::test_a_handler_that_ends_the_transaction_fails",
    ),
    Breakage(
        "SQLite: a raw COMMIT is not refused to a handler",
        BACKEND,
        "return sqlite3.SQLITE_DENY if ends_transaction",
        "return sqlite3.SQLITE_OK if ends_transaction",
        f"{OF_HANDLERS}::test_sqlite_refuses_statements_that_end_the_transaction",
    ),
    Breakage(
        "a handler gets the duplicates too",
        STORE,
        "call_inside_savepoint(handler, connection, before, plan.new)",
        "call_inside_savepoint(handler, connection, before, Events.of(events))",
        f"{OUTCOME}::test_duplicates_are_acknowledged_and_not_handled_again",
    ),
    Breakage(
        "what a handler returns is ignored, a coroutine too",
        HANDLERS,
        "    if result is not None:\n",
        "    if result is NotImplemented:\n",
        f"{OF_HANDLERS}::test_a_handler_that_returns_anything_has_failed",
    ),
    Breakage(
        "good events before a bad one are refused with it",
        STORE,
        "if len(part) > 1 and not failure.ended:",
        "if not part and not failure.ended:",
        f"{BISECTION}::test_the_one_bad_event_is_found_and_those_before_it_are_committed",
    ),
    Breakage(
        "a batch whose handler has ended its transaction is tried again",
        STORE,
        "if len(part) > 1 and not failure.ended:",
        "if len(part) > 1:",
        f"{OF_HANDLERS}::test_a_batch_whose_handler_ended_the_transaction_is_not_cut_since_nobody_knows_what_stays",
    ),
    Breakage(
        "a handler that fails once for a moment is final",
        HANDLERS,
        "return isinstance(error, HandlerRaised) and not error.ended",
        "return isinstance(error, HandlerRaised) and error.ended",
        f"{BISECTION}::test_a_handler_that_fails_only_sometimes_gets_through",
    ),
    Breakage(
        "a full disk inside a handler is taken for the handler's failure",
        HANDLERS,
        "        if is_passing_database_failure(error):\n",
        "        if error is None:\n",
        f"{FAILURES}::test_a_disk_that_is_full_inside_a_handler_is_not_taken_for_the_handlers_failure",
    ),
    Breakage(
        "PostgreSQL: what a handler has set for its session stays for our commit",
        STORE,
        "                    self._backend.settle(connection)\n",
        "",
        f"{OF_HANDLERS}::test_what_a_handler_sets_for_the_session_is_set_back_before_the_commit",
    ),
    Breakage(
        "what was committed before an error of the database is not said",
        STORE,
        "                if done is None:\n                    raise\n",
        "                raise\n",
        f"{OUTCOME}::test_it_does_not_raise_where_something_of_the_batch_is_committed",
    ),
    # Durability.
    Breakage(
        "no sync before RESUME",
        STORE,
        "            self._backend.make_durable(connection)\n            connection.rollback()\n",
        "            connection.rollback()\n",
        f"{DURABILITY}::test_the_log_and_the_folder_are_synced_before_the_cursor_is_said",
    ),
    Breakage(
        "the log's name is not synced into its folder",
        BACKEND,
        "        durable.sync(path.parent)\n",
        "",
        f"{DURABILITY}::test_the_log_and_the_folder_are_synced_before_the_cursor_is_said",
    ),
    Breakage(
        "a duplicate of somebody else's commit is acknowledged before it is synced",
        STORE,
        "if plan.acked and state.last != self._durable:",
        "if plan.acked and state.last < self._durable:",
        f"{DURABILITY}::test_a_duplicate_of_what_another_process_committed_is_synced_before_it_is_acknowledged",
    ),
    Breakage(
        "RESUME is said from a database that could lose commits",
        STORE,
        "        self.check_durability()\n        with self._reading()",
        "        with self._reading()",
        f"{DURABILITY}::test_a_database_in_memory_is_refused",
    ),
    Breakage(
        "SQLite: a log that is not synced at each commit is taken",
        BACKEND,
        '{"wal": 2, ',
        '{"wal": 1, ',
        f"{DURABILITY}::test_sqlite_must_sync_the_log_and_without_one_the_directory_too",
    ),
    Breakage(
        "SQLite: commits are not synced",
        ENGINE,
        '"PRAGMA synchronous=EXTRA"',
        '"PRAGMA synchronous=NORMAL"',
        f"{DURABILITY}::test_a_store_runs_sqlite_with_a_log_that_is_synced_at_every_commit",
    ),
    Breakage(
        "PostgreSQL: commits are not waited for",
        BACKEND,
        "        connection.execute(self._SYNC_AT_COMMIT)\n",
        "",
        f"{DURABILITY}::test_a_commit_is_synchronous_whatever_the_database_or_a_handler_has_set",
    ),
    Breakage(
        "PostgreSQL: torn pages after a power cut are taken into account by nobody",
        BACKEND,
        "('fsync', 'full_page_writes', 'synchronous_commit')",
        "('fsync', 'synchronous_commit')",
        f"{DURABILITY}::test_a_postgresql_that_does_not_sync_is_refused",
    ),
    Breakage(
        "PostgreSQL: a table that a crash empties is taken",
        BACKEND,
        "relpersistence <> 'p'",
        "relpersistence = 't'",
        f"{DURABILITY}::test_a_table_that_is_not_logged_is_refused",
    ),
    Breakage(
        "PostgreSQL: a commit that no standby has is acknowledged",
        BACKEND,
        'if info.pop(_WARNED, None) == "WARNING":',
        'if info.pop(_WARNED, None) == "warning":',
        "tests/faults/test_postgres.py::test_a_commit_whose_wait_for_its_standby_is_cancelled_is_not_acknowledged",
    ),
    Breakage(
        "PostgreSQL: a lock is waited for for ever",
        ENGINE,
        '"lock_timeout": f"{LOCK_TIMEOUT_S}s",',
        '"lock_timeout": 0,',
        f"{FAILURES}::test_every_wait_of_a_session_is_bounded",
    ),
    # What is refused.
    Breakage(
        "a store of another version is written to",
        STORE,
        "            if revision != schema.HEAD:\n",
        "            if revision is None:\n",
        f"{OUTCOME}::test_a_store_at_another_revision_is_not_ready",
    ),
    Breakage(
        "a password is shown",
        ENGINE,
        '["password", "sslpassword"]',
        '["sslpassword"]',
        "tests/unit/test_engine.py::test_a_password_is_not_shown_wherever_it_stands",
    ),
)
