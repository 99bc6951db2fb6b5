"""What the documents say is true: their commands run, their code works, their links lead somewhere."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")

ELSEWHERE = ("make ",)
"""Commands that other tests and CI run."""


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for found, text in BLOCK.findall(page.read_text()):
            if found == language:
                yield page, text


def commands() -> list[str]:
    lines = [line for _, text in blocks("console") for line in text.splitlines() if line.startswith("$ ")]
    return [line.removeprefix("$ ").partition("    #")[0].partition("   #")[0].strip() for line in lines]


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def environment(port: int) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "CONSUMER_SERVE_PORT": str(port), "COLUMNS": "200"}


def start(command: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )


def wait_for_line(process: subprocess.Popen[str], wanted: str) -> None:
    assert process.stderr is not None
    assert any(wanted in line for line in process.stderr), f"ended without saying {wanted!r}"


def run(command: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_readmes_two_terminals_and_a_kill_end_as_it_shows(
    tmp_path: Path, environment: dict[str, str], port: int
) -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("\n## ")[2].partition("\n## ")[0]  # it is the first thing that a reader meets
    assert section.startswith("Two terminals, one kill")
    first, second, _ = (text for language, text in BLOCK.findall(section) if language == "console")
    append, serve = (line.removeprefix("$ ") for line in first.splitlines())
    consume, status, *shown = (line.removeprefix("$ ") for line in second.splitlines())
    consume = consume.replace("7000", str(port))

    assert run(append, tmp_path, environment).returncode == 0
    publisher = start(serve, tmp_path, environment)
    try:
        wait_for_line(publisher, "serving")
        victim = start(consume, tmp_path, environment)
        wait_for_line(victim, "connected")
        victim.kill()
        victim.wait()
        victim.stderr.close()
        consumer = start(consume, tmp_path, environment)
        while run(status, tmp_path, environment).stdout.splitlines() != shown:
            assert consumer.poll() is None
        consumer.send_signal(signal.SIGTERM)
        assert consumer.wait() == 0
        consumer.stderr.close()
    finally:
        publisher.send_signal(signal.SIGTERM)
        assert publisher.wait() == 0
        publisher.stderr.close()


def test_the_demo_says_what_the_readme_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    told = re.sub(r"process \d+", "process 4712", run("consumer demo", tmp_path, environment).stdout)
    shown = next(text for page, text in blocks("text") if page.name == "README.md")
    assert all(line in told.splitlines() for line in shown.splitlines()), told


@pytest.mark.parametrize("command", sorted({c for c in commands() if not c.startswith(ELSEWHERE)}))
def test_a_documented_command_is_one(command: str, tmp_path: Path, environment: dict[str, str]) -> None:
    """Each runs where it can run alone; those that wait for another process are asked for their help."""
    if re.match(r"consumer (run|serve) ", command) and "--help" not in command:
        command = " ".join(command.split()[:2]) + " --help"
    assert run("consumer upgrade --db sqlite:///store.db", tmp_path, environment).returncode == 0
    done = run(command, tmp_path, environment)
    assert done.returncode == 0, done.stderr


def test_every_option_in_the_operations_page_exists(tmp_path: Path, environment: dict[str, str]) -> None:
    helps = "".join(
        run(f"consumer {command} --help", tmp_path, environment).stdout
        for command in ("run", "serve", "upgrade", "status", "pause", "skip", "trust", "history", "journal append")
    )
    for page in PAGES:
        for option in set(re.findall(r"`(--[a-z-]+)`", page.read_text())):
            assert option in helps, f"{option} in {page.name}"


def test_the_exit_codes_in_the_operations_page_are_those_of_the_command() -> None:
    from consumer.cli.exits import EXIT_CODES

    page = (ROOT / "docs" / "operations.md").read_text()
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert documented == {0, 1, *EXIT_CODES.values()}


@pytest.mark.parametrize(("page", "text"), [pytest.param(*block, id=block[0].name) for block in blocks("python")])
def test_python_in_the_documents_compiles(page: Path, text: str) -> None:
    compile(text, str(page), "exec")


def test_the_readmes_ten_lines_run(tmp_path: Path, environment: dict[str, str], port: int) -> None:
    _, text = next(block for block in blocks("python") if block[0].name == "README.md")
    run("seq 0 9 | awk '{ print \"EVENT\", $1, 1 }' | consumer journal append j", tmp_path, environment)
    (tmp_path / "program.py").write_text(text.replace("7000", str(port)))
    publisher = start("consumer serve j --no-follow", tmp_path, environment)
    try:
        wait_for_line(publisher, "serving")
        done = run("python program.py", tmp_path, environment)
        assert done.returncode == 0, done.stderr
    finally:
        publisher.send_signal(signal.SIGTERM)
        publisher.wait()
        publisher.stderr.close()
    look = "python -c \"import sqlite3; print(sqlite3.connect('stock.db').execute('SELECT count(*), sum(delta) FROM stock').fetchone())\""
    assert run(look, tmp_path, environment).stdout == "(10, 10)\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_documents_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_room_of_the_house_is_on_the_map() -> None:
    plan = (ROOT / "ARCHITECTURE.md").read_text()
    for room in (ROOT / "consumer").glob("*.py"):
        if not room.name.startswith("__"):
            assert f"`{room.stem}`" in plan, room.name


def test_make_lists_what_it_can_make() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^  make ([\w-]+) +\S", done.stdout, re.MULTILINE) == phony.split()
