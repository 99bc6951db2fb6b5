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
        PROOF,
        "        if lines:\n",
        "        if not lines and self.expected is lines:\n",
        WRONG,
    ),
    Breakage(
        "the proof kills nobody",
        PROOF,
        "        for point in self._points():\n",
        "        for point in ():\n",
        WRONG,
    ),
    Breakage(
        "the proof's database never fails",
        CHILD,
        "                _fail(connection, cursor)\n",
        "                pass\n",
        WRONG,
    ),
    Breakage(
        "the proof does not look at the ledger",
        PROOF,
        "        if ledger != self.events:\n",
        "        if ledger is None:\n",
        f"{OF_PROOF}::test_a_handler_that_does_not_even_work_undisturbed_is_told_so",
    ),
    Breakage(
        "the proof tries one size of batches",
        PROOF,
        "        for other in batches:\n",
        "        for other in batches[:0]:\n",
        WRONG,
    ),
    Breakage(
        "the proof is content with a consumer that left before the end",
        PROOF,
        "            report = self.runner.run(Task(",
        "            return self.statements or self.runner.run(Task(",
        f"{OF_PROOF}::test_a_right_handler_passes_and_the_database_is_as_before",
    ),
    Breakage(
        "a crash point crashes again and again",
        CRASH,
        "            return is_it and crash.passed == times\n",
        "            return is_it and crash.passed >= times\n",
        f"{OF_CRASH}::test_a_point_of_the_store_raises_what_it_is_told_when_it_is_told",
    ),
    Breakage(
        "SIGKILL is an exception that can be caught",
        CRASH,
        "        os.kill(os.getpid(), how)\n",
        "        raise SystemExit(-how)\n",
        f"{OF_CRASH}::test_with_sigkill_the_process_dies_there",
    ),
    Breakage(
        "a crash point stays after its test",
        CRASH,
        "        points.reach = previous\n",
        "        pass\n",
        f"{OF_CRASH}::test_unused_they_are_the_plain_function_and_afterwards_again",
    ),
    Breakage(
        "a scripted publisher sends what the cursor has",
        STEPS,
        "if event[0] > session.last)",
        "if event[0] >= session.last)",
        f"{OF_PUBLISHER}::test_a_step_sends_what_its_name_says",
    ),
    Breakage(
        "a test that waits for an ACK goes on without it",
        SESSION,
        "        while not self.acks or max(self.acks) < seq:\n",
        "        while not self.acks:\n",
        f"{OF_PUBLISHER}::test_every_resume_and_ack_is_kept_beside_what_was_seen_at_that_moment",
    ),
    Breakage(
        "every run of pytest loads SQLAlchemy",
        "consumer/__init__.py",
        "from consumer.core import lazy\n",
        "from consumer.core import lazy\nfrom consumer.store import schema as _schema\n",
        "tests/core/test_lazy.py::test_the_plugin_of_every_pytest_run_loads_nothing_but_itself",
    ),
    Breakage(
        "nobody who looks around sees the package's names",
        "consumer/core/lazy.py",
        "lambda: sorted({*found, *names, *modules})",
        "lambda: sorted(found)",
        "tests/core/test_lazy.py::test_whoever_looks_around_sees_every_name",
    ),
)
