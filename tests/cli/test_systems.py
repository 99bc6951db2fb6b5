"""Systems that lack something: what does not need it works, and what does says so in one line."""

import subprocess
import sys
from pathlib import Path

from consumer.store import migrate

WITHOUT_LOCKS = """
import sys
sys.modules["fcntl"] = None  # as on Windows
"""


def without_locks(
    *arguments: str, code: str = "from consumer.cli import main; main()"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LOCKS + code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_posix_locks_nothing_is_appended_to_a_journal_and_one_line_says_why():
    done = without_locks("journal", "append", "journal")
    assert (done.returncode, done.stdout) == (19, "")
    assert done.stderr.startswith("consumer: the journal journal cannot be used: ")
    assert "fcntl" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_posix_locks_the_consumer_and_the_lab_work(tmp_path: Path):
    migrate.upgrade(f"sqlite:///{tmp_path / 'store.db'}")
    code = "from consumer import *; import consumer; consumer.Consumer; s = Store(sys.argv[1]); print(s.resume()); s.close()"
    done = without_locks(f"sqlite:///{tmp_path / 'store.db'}", code=code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-1\n", "")
    status = without_locks("status", "--db", f"sqlite:///{tmp_path / 'store.db'}")
    assert status.returncode == 0, status.stderr


def test_a_module_of_the_users_own_that_is_missing_is_named_as_such(consumer, tmp_path: Path):
    (tmp_path / "odd.py").write_text("import nothing_of_that_name")
    done = consumer("run", "tcp://127.0.0.1:9", "--handler", "odd:handler")
    assert done.code == 2
    assert "nothing_of_that_name" in done.err
