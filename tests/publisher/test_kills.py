"""SIGKILL of publisher, consumer and writer in turn: what was reported is there, and both sides end equal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROUNDS = int(os.environ.get("CONSUMER_TEST_KILLS", "10"))
"""How often each of the three is killed."""

SCRIPT = Path(__file__).with_name("kill_in_turn.py")


def test_whoever_is_killed_consumer_and_journal_end_equal(tmp_path: Path, patience_s: float) -> None:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(tmp_path), str(ROUNDS), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # with its forks it is one group
    )
    try:
        out, err = process.communicate(timeout=patience_s + 10 * ROUNDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(patience_s)
        raise
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["events"] > 0
    assert result["consumed_under_kills"] > 0
    sys.stdout.write(out)
