"""Mistakes in the contract's own seven steps, and in the migrations of a store."""

from tests.mutants.breakage import Breakage

SHIM, SESSION = "consumer/lab/shim.py", "consumer/lab/session.py"
MIGRATE, FIRST, ENV = (
    "consumer/store/migrate.py",
    "migrations/versions/0001_checkpoint_and_ledger.py",
    "migrations/env.py",
)

APPLY = "tests/contract/test_apply_event.py"
OPEN = "tests/contract/test_open_store.py"
LINE = "tests/contract/test_consume_line.py"
OF_SESSION = "tests/contract/test_consume_session.py"
CLIENT = "tests/contract/test_run_client.py"
UPGRADE = "tests/migrations/test_upgrade.py"
LENT = "tests/migrations/test_lent.py"
SCHEMAS = "tests/migrations/test_schemas.py"

BREAKAGES = (
    Breakage(
        "the contract's store does not sync its folder",
        "open_store",
        "'PRAGMA synchronous=EXTRA'",
        "'PRAGMA synchronous=FULL'",
        f"{OPEN}::test_a_new_store_is_synchronous_extra",
    ),
    Breakage(
        "a store that was there is reset",
        "_complete",
        "_INSERT_FIRST_ROW",
        "'INSERT OR REPLACE INTO checkpoint VALUES (1, -1, 0)'",
        f"{OPEN}::TestForeign::test_one_without_the_ledger_gets_it_and_keeps_its_row",
    ),
    Breakage(
        "two processes make a new store at once and one fails",
        "_complete",
        "'BEGIN IMMEDIATE'",
        "'BEGIN'",
        f"{OPEN}::test_creation_happens_in_one_transaction_that_locks_at_once",
    ),
    Breakage(
        "an event is judged before the lock is there",
        "apply_event",
        "'BEGIN IMMEDIATE'",
        "'BEGIN'",
        f"{APPLY}::test_every_decision_is_read_under_the_write_lock",
    ),
    Breakage(
        "an event that is acknowledged was never committed",
        "apply_event",
        "con.execute('COMMIT')",
        "con.execute('ROLLBACK')",
        f"{LINE}::test_when_the_ack_exists_another_connection_sees_the_result",
    ),
    Breakage(
        "half of a failed event stays",
        "_roll_back",
        "con.execute('ROLLBACK')",
        "con.execute('COMMIT')",
        f"{LINE}::test_an_error_of_fault_passes_and_nothing_stays",
    ),
    Breakage(
        "a fault that ends the transaction goes unseen",
        "apply_event",
        "_call_inside(con, fault)",
        "fault()",
        f"{APPLY}::test_a_fault_that_rolled_back_and_returned_is_an_error_and_nothing_more_is_written",
    ),
    Breakage(
        "a caller's transaction is committed for him",
        "apply_event",
        "con.in_transaction",
        "con is None",
        f"{LINE}::test_a_callers_transaction_is_refused",
    ),
    Breakage(
        "a write that a trigger ignores moves the cursor all the same",
        "_write",
        "con.execute(statement, values).rowcount != 1",
        "con.execute(statement, values).rowcount > 1",
        f"{APPLY}::test_a_trigger_that_ignores_a_write_moves_nothing",
    ),
    Breakage(
        "the contract's client: RESUME from the beginning",
        "run_client",
        "encode_resume(last)",
        "encode_resume(-1)",
        f"{CLIENT}::test_resume_says_what_the_database_holds",
    ),
    Breakage(
        "the contract's client: ACK before commit",
        "lab.session:_consume",
        "ack = consume_line(con, line)",
        "writer.write(b'ACK' + line[5:line.rindex(b' ')] + b'\\n')\nack = consume_line(con, line)",
        f"{OF_SESSION}::test_an_ack_is_written_when_another_connection_sees_the_event",
    ),
    Breakage(
        "the contract's client: a silent publisher is waited for for ever",
        "lab.session:_read_line",
        "asyncio.timeout(timeout)",
        "asyncio.timeout(None)",
        f"{OF_SESSION}::test_a_silent_publisher_is_a_timeout_error_after_timeout",
    ),
    Breakage(
        "the contract's client: an error while closing hides the first",
        "consume_session",
        "close_after_error",
        "close_writer",
        f"{OF_SESSION}::test_another_error_while_closing_never_replaces_an_original_error",
    ),
    Breakage(
        "PostgreSQL: two migrations run at once",
        "lock",
        "if connection.dialect.name == 'postgresql':\n    connection.exec_driver_sql(f'SELECT pg_advisory_xact_lock({LOCK_KEY})')",
        "if connection.dialect.name == 'postgresql':\n    pass",
        f"{UPGRADE}::test_an_upgrade_waits_for_the_one_that_is_running",
    ),
    Breakage(
        "two threads migrate through Alembic's one set of globals",
        "_run",
        "with _alembic, _alembics_globals_kept():\n    try:\n        action()\n    except MigrationRefused:\n        raise\n    except CommandError as error:\n        raise NotReady(f'{error}; if the database is at that revision, another version made it: use that') from error",
        "with threading.Lock(), _alembics_globals_kept():\n    try:\n        action()\n    except MigrationRefused:\n        raise\n    except CommandError as error:\n        raise NotReady(f'{error}; if the database is at that revision, another version made it: use that') from error",
        f"{UPGRADE}::test_eight_threads_upgrade_eight_databases",
    ),
    Breakage(
        "a table of another shape is adopted",
        "find_tables",
        "problem is not None",
        "problem is None and columns is None",
        f"{UPGRADE}::test_a_table_of_another_shape_is_refused_by_name_and_nothing_changes",
    ),
    Breakage(
        "a migration that fails half-way leaves its first half",
        "_run_online",
        "make_short_engine(url).begin()",
        "make_short_engine(url).connect().execution_options(isolation_level='AUTOCOMMIT')",
        f"{UPGRADE}::test_a_migration_that_fails_half_way_leaves_everything_as_it_was",
    ),
    Breakage(
        "a store with events in it is dropped without a question",
        "0001_checkpoint_and_ledger:downgrade",
        "context.get_x_argument(as_dictionary=True).get('drop') != 'yes'",
        "context.get_x_argument(as_dictionary=True).get('drop') == 'no'",
        f"{UPGRADE}::test_a_store_that_holds_something_is_dropped_only_on_demand",
    ),
    Breakage(
        "a store that lost its cursor is made anew",
        "_is_at_head",
        "connection.execute(Statements(tables).read_state).first() is None",
        "connection is None",
        "tests/cli/test_command.py::test_a_store_at_head_that_lost_its_cursor_or_a_table_is_not_made_anew",
    ),
    Breakage(
        "a migration of ours ends the user's own Alembic run",
        "_run",
        "_alembics_globals_kept()",
        "threading.Lock()",
        f"{LENT}::test_a_users_migration_makes_the_store_and_goes_on",
    ),
    Breakage(
        "a URL is taken inside the user's own Alembic run",
        "migrate:_checked",
        "'config' in vars(context) and not _alembic.locked()",
        "False",
        f"{LENT}::test_a_url_is_refused_there_before_anything_is_done",
    ),
    Breakage(
        "SQLite: a store on a lent connection stays when its user rolls back",
        "_is_begun",
        "not driver.in_transaction and driver.isolation_level is not None",
        "False",
        f"{LENT}::test_nothing_of_it_stays_when_its_user_rolls_back",
    ),
    Breakage(
        "a refusal leaves what it has set on a lent connection",
        "_lent",
        "connection.begin_nested()",
        "threading.Lock()",
        f"{LENT}::test_a_refusal_leaves_the_users_transaction_usable",
    ),
    Breakage(
        "PostgreSQL: a lent connection keeps our search_path",
        "_lent",
        "(before,)",
        "('nowhere',)",
        f"{LENT}::test_a_schema_of_postgresql_and_what_its_user_had_set",
    ),
    Breakage(
        "a lent connection without a transaction is taken",
        "check_connection",
        "not connection.in_transaction()",
        "False",
        f"{LENT}::test_a_connection_without_a_transaction_is_refused",
    ),
    Breakage(
        "a store is made beside one that is further on in the search_path",
        "postgresql:current_schema",
        "holding and first not in holding",
        "False",
        f"{SCHEMAS}::test_a_store_further_on_is_named_and_neither_taken_nor_joined_by_another",
    ),
    Breakage(
        "a program's store has the names that the environment says",
        "env:",
        "GIVEN.get('names')",
        "None",
        f"{SCHEMAS}::test_what_a_program_says_goes_before_the_environment",
    ),
)
