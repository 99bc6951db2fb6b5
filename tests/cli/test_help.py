"""Help and completion: whole sentences at 80 columns, `-h` everywhere, and what a shell is told on TAB."""

import os
import subprocess
import sys

import pytest

COMMANDS = [
    (),
    ("run",),
    ("upgrade",),
    ("status",),
    ("pause",),
    ("resume",),
    ("skip",),
    ("trust",),
    ("history",),
    ("serve",),
    ("journal",),
    ("journal", "append"),
    ("demo",),
]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "consumer")
def test_help_is_asked_for_in_two_ways_and_is_not_cut(consumer, command: tuple[str, ...]):
    done = consumer(*command, "--help")
    assert (done.code, done.err) == (0, "")
    assert consumer(*command, "-h").out == done.out
    assert "..." not in done.out.replace("]...", "]")  # several may be given
    assert max(map(len, done.out.splitlines())) <= 80
    assert "-h, --help" in done.out


def complete(words: str) -> list[str]:
    """What a shell is told when TAB is pressed after these words."""
    done = subprocess.run(
        [sys.executable, "-c", "from consumer.cli import main; main()"],
        env={
            **os.environ,
            "_CONSUMER_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_options_and_values():
    assert set(complete("consumer ")) == {
        "run",
        "upgrade",
        "status",
        "pause",
        "resume",
        "skip",
        "trust",
        "history",
        "serve",
        "demo",
        "journal",
    }
    assert complete("consumer st") == ["status"]
    assert complete("consumer run --log-f") == ["--log-format"]
    assert complete("consumer run --log-level w") == ["warning"]


def test_completion_can_be_installed(process):
    assert "--install-completion" in process("--help").out
    shell = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # which shell this test runs under says nothing
    assert "_CONSUMER_COMPLETE=complete_bash" in process("--show-completion", "bash", **shell).out
