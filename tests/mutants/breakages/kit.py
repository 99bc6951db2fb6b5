"""Mistakes in what users test with: a proof that proves nothing, a crash that does not happen, a package's own names."""

from tests.mutants.breakage import Breakage

PROOF, CRASH, CHILD = "consumer/testing/proof/proof.py", "consumer/testing/crash.py", "consumer/testing/proof/child.py"
STEPS, SESSION = "consumer/testing/script/steps.py", "consumer/testing/script/session.py"

OF_PROOF = "tests/testing/test_proof.py"
OF_CRASH = "tests/testing/test_crash.py"
OF_PUBLISHER = "tests/testing/test_publisher.py"

WRONG = f"{OF_PROOF}::test_a_wrong_handler_is_caught_and_the_message_says_where_and_what_differs"

BREAKAGES = (
    Breakage(
        "the proof compares nothing",
        "_Prover._compare",
        "if lines:\n    more = ['…'] if len(lines) > LINES_MAX else []\n    raise AssertionError('\\n  '.join([f'not exactly once, after {what}', *lines[:LINES_MAX], *more]))",
        "if not lines and self.expected is lines:\n    more = ['…'] if len(lines) > LINES_MAX else []\n    raise AssertionError('\\n  '.join([f'not exactly once, after {what}', *lines[:LINES_MAX], *more]))",
        WRONG,
    ),
    Breakage("the proof kills nobody", "_Prover.prove", "self._points()", "()", WRONG),
    Breakage(
        "the proof's database never fails",
        "_statements.before",
        "if disturbance is not None and (not disturbance.kills) and (count[0] == disturbance.times):\n    _fail(connection, cursor)",
        "if disturbance is not None and (not disturbance.kills) and (count[0] == disturbance.times):\n    pass",
        WRONG,
    ),
    Breakage(
        "the proof does not look at the ledger",
        "_Prover._look",
        "ledger != self.events",
        "ledger is None",
        f"{OF_PROOF}::test_a_handler_that_does_not_even_work_undisturbed_is_told_so",
    ),
    Breakage(
        "the proof tries one size of batches",
        "_Prover.prove",
        "for other in batches:\n    self._compare(f'batches of {other} instead of {size}: the effect depends on where batches are cut', other)",
        "for other in batches[:0]:\n    self._compare(f'batches of {other} instead of {size}: the effect depends on where batches are cut', other)",
        WRONG,
    ),
    Breakage(
        "the proof is content with a consumer that left before the end",
        "_Prover._run",
        "report = self.runner.run(Task('', size, self.limit_s, None), publisher)",
        "return self.statements or self.runner.run(Task('', size, self.limit_s, None), publisher)",
        f"{OF_PROOF}::test_a_right_handler_passes_and_the_database_is_as_before",
    ),
    Breakage(
        "a crash point crashes again and again",
        "crash_at.passes",
        "crash.passed == times",
        "crash.passed >= times",
        f"{OF_CRASH}::test_a_point_of_the_store_raises_what_it_is_told_when_it_is_told",
    ),
    Breakage(
        "SIGKILL is an exception that can be caught",
        "_crash",
        "if isinstance(how, signal.Signals):\n    os.kill(os.getpid(), how)\nelse:\n    raise how",
        "if isinstance(how, signal.Signals):\n    raise SystemExit(-how)\nelse:\n    raise how",
        f"{OF_CRASH}::test_with_sigkill_the_process_dies_there",
    ),
    Breakage(
        "a crash point stays after its test",
        "_on_point",
        "points.reach = previous",
        "pass",
        f"{OF_CRASH}::test_unused_they_are_the_plain_function_and_afterwards_again",
    ),
    Breakage(
        "a scripted publisher sends what the cursor has",
        "Serve.play",
        "event[0] > session.last",
        "event[0] >= session.last",
        f"{OF_PUBLISHER}::test_a_step_sends_what_its_name_says",
    ),
    Breakage(
        "a test that waits for an ACK goes on without it",
        "Session.acked",
        "not self.acks or max(self.acks) < seq",
        "not self.acks",
        f"{OF_PUBLISHER}::test_every_resume_and_ack_is_kept_beside_what_was_seen_at_that_moment",
    ),
    Breakage(
        "every run of pytest loads SQLAlchemy",
        "resumable_consumer_pytest:",
        "if TYPE_CHECKING:\n    from consumer.testing import ExactlyOnce",
        "import sqlalchemy\nif TYPE_CHECKING:\n    from consumer.testing import ExactlyOnce",
        "tests/core/test_lazy.py::test_the_plugin_of_every_pytest_run_loads_nothing_but_itself",
    ),
    Breakage(
        "nobody who looks around sees the package's names",
        "names_of",
        "{*found, *names, *modules}",
        "found",
        "tests/core/test_lazy.py::test_whoever_looks_around_sees_every_name",
    ),
    Breakage(
        "a project that has a consumer of its own cannot run its tests",
        "resumable_consumer_pytest:",
        "import pytest",
        "import pytest\nfrom consumer.testing import Proof",
        "tests/testing/test_plugin.py::test_a_project_with_a_consumer_of_its_own_has_its_own_in_its_tests",
    ),
)
