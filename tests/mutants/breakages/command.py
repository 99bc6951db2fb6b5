"""Mistakes in the command line: stops that are not heard, exit codes and messages that mislead, secrets that are shown."""

from tests.mutants.breakage import Breakage

OF_STOPS = "tests/cli/test_stops.py"
OF_LOGS = "tests/cli/test_logs.py"
OF_PLACE = "tests/cli/test_place.py"
OF_COMMAND = "tests/cli/test_command.py"
OF_DEMO = "tests/cli/test_demo.py"

BREAKAGES = (
    Breakage(
        "a stop is not heard before the command is at work",
        "start:main",
        "stops.leave_at_once(sys.argv[1:])",
        "None",
        f"{OF_STOPS}::test_run_is_stopped_while_it_loads",
    ),
    Breakage(
        "an upgrade that was broken off says that all is well",
        "leave_at_once.leave",
        "os._exit(0 if good_end else BROKEN_OFF + number)",
        "os._exit(0)",
        f"{OF_STOPS}::test_what_has_something_to_do_and_was_broken_off_says_so",
    ),
    Breakage(
        "an append that is stopped early is reported as broken off",
        "stops:",
        'UNTIL_STOPPED = ("run", "serve", "journal")',
        'UNTIL_STOPPED = ("run", "serve")',
        f"{OF_STOPS}::test_what_goes_on_until_it_is_stopped_has_ended_well_when_it_is",
    ),
    Breakage(
        "what was started deaf to Ctrl-C hears it",
        "leave_at_once",
        "signal.getsignal(number) is not signal.SIG_IGN",
        "True",
        f"{OF_STOPS}::test_a_signal_that_the_caller_has_ignored_stays_ignored",
    ),
    Breakage(
        "SQLite's own wait for a lock answers to no signal",
        "wait_for_lock",
        "min(TRY_S, limit_s)",
        "limit_s",
        f"{OF_STOPS}::test_the_wait_for_a_locked_file_is_said_and_a_signal_ends_it",
    ),
    Breakage(
        "the wait for a locked file is silent",
        "wait_for_lock",
        "waited_s >= say_at_s",
        "say_at_s < 0",
        f"{OF_STOPS}::test_the_wait_for_a_locked_file_is_said_and_a_signal_ends_it",
    ),
    Breakage(
        "upgrade does not wait for a locked file",
        "wait_for_lock",
        "not is_busy(error) or (waited_s >= limit_s and not for_ever)",
        "not is_busy(error) or not for_ever",
        f"{OF_STOPS}::test_the_wait_for_a_locked_file_is_said_and_a_signal_ends_it",
    ),
    Breakage(
        "--version loads the database",
        "cli.status:",
        "from consumer.cli.options import DEFAULT_DATABASE, AsJson, Database, Prefix, Schema",
        "from consumer.cli.options import DEFAULT_DATABASE, AsJson, Database, Prefix, Schema\n"
        "from consumer.store import migrate as _",
        f"{OF_STOPS}::test_what_only_shows_words_loads_neither_a_database_nor_the_network",
    ),
    Breakage(
        "a name in a log line steers the terminal",
        "printable",
        "text.isprintable()",
        "text",
        f"{OF_LOGS}::test_control_characters_are_escaped_in_text_so_that_no_line_is_anothers",
    ),
    Breakage(
        "a JSON log ends with a line that is no JSON",
        "logged",
        "log_format is LogFormat.TEXT",
        "log_format",
        f"{OF_LOGS}::test_the_error_that_ends_it_is_the_last_json_line_with_its_facts",
    ),
    Breakage(
        "a handler's own log lines are not shown",
        "logged",
        "levels = {root: getattr(logging, log_level.upper())}",
        'levels = {logging.getLogger("consumer"): getattr(logging, log_level.upper())}',
        f"{OF_LOGS}::test_everybodys_lines_are_shown_from_the_level_on_that_was_asked_for",
    ),
    Breakage(
        "the time of a log line has no zone",
        "JSONLines.format",
        "zone = self.formatTime(record, '%z')",
        "zone = ''",
        f"{OF_LOGS}::test_a_json_line_has_a_time_with_its_zone_the_event_and_its_fields",
    ),
    Breakage(
        "a command in a message is no command to a shell",
        "Place.command",
        "return shlex.join(words)",
        'return " ".join(words)',
        f"{OF_PLACE}::test_the_command_in_a_message_does_what_the_message_is_about",
    ),
    Breakage(
        "a command in a message is for other tables",
        "Place.command",
        'if self.prefix:\n    words += ["--prefix", self.prefix]',
        "",
        f"{OF_PLACE}::test_the_command_goes_with_the_tables_that_were_asked_for",
    ),
    Breakage(
        "a command in a message holds a password's stars",
        "Place.command",
        "url.password is not None",
        "url.password is not None and url.port is not None",
        f"{OF_PLACE}::test_a_command_names_the_store_as_a_shell_takes_it",
    ),
    Breakage(
        "upgrade says that a store was there that it has made",
        "_what_was_done",
        "before is None and (now.last, now.ledger_rows) == (NOTHING_YET, 0)",
        "False",
        f"{OF_COMMAND}::test_upgrade_says_what_it_has_done",
    ),
    Breakage(
        "upgrade says that half a store was created which it has adopted",
        "_what_was_done",
        "before is None and (now.last, now.ledger_rows) == (NOTHING_YET, 0)",
        "before is None",
        f"{OF_COMMAND}::test_upgrade_says_what_it_has_done",
    ),
    Breakage(
        "a certificate without its key is left to OpenSSL to complain of",
        "_holds_key",
        'return b"PRIVATE KEY-----" in Path(cert).read_bytes()',
        "return bool(Path(cert).read_bytes())",
        f"{OF_COMMAND}::test_a_certificate_and_its_key_belong_together",
    ),
    Breakage(
        "status writes beside a file that its user may only read",
        "migrate:looking",
        'readable = sqlite.as_it_can_be_read(parsed) if parsed.get_backend_name() == "sqlite" else parsed',
        "readable = parsed",
        "tests/cli/test_reader.py::test_a_sqlite_file_in_a_folder_that_one_may_not_write_to",
    ),
    Breakage(
        "status of a store in use leaves its log out",
        "as_it_can_be_read",
        'os.path.exists(f"{path}-wal")',
        "False",
        "tests/cli/test_reader.py::test_a_sqlite_file_that_a_consumer_has_open_is_read_with_its_log",
    ),
    Breakage(
        "the rate is over five seconds, however many have passed",
        "LiveLine._rate",
        "min(max(now - self._began, 1 / REFRESH_PER_S), RATE_WINDOW_S)",
        "RATE_WINDOW_S",
        "tests/cli/test_live.py::test_the_rate_is_over_the_time_that_has_passed",
    ),
    Breakage(
        "the demo's consumer is not killed between commit and ACK",
        "_stop_before_ack.reach",
        "point is Point.BEFORE_ACK",
        "point is Point.BEFORE_COMMIT",
        f"{OF_DEMO}::test_it_tells_the_story_into_a_pipe",
    ),
    Breakage(
        "without POSIX locks an append asks to be reported",
        "_with_locks_of_files",
        'error.name != "fcntl"',
        "error.name",
        "tests/cli/test_systems.py::test_without_posix_locks_nothing_is_appended_to_a_journal_and_one_line_says_why",
    ),
    Breakage(
        "an option that would help is not named",
        "explain",
        'return "; ".join([one_line(error) or name, *hints, *getattr(error, "__notes__", ())])',
        "return one_line(error) or name",
        "tests/cli/test_exits.py::test_an_error_that_an_option_is_about_names_it",
    ),
)
