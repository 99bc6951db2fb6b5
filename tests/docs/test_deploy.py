"""The systemd unit and the container file: what they name is there, and what they run runs."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.cli.consuming import FORCE_S
from consumer.cli.exits import EXIT_CODES
from consumer.runtime.defaults import STOP_TIMEOUT_S

DEPLOY = Path(__file__).parents[2] / "deploy"
ROOT = DEPLOY.parent
UNIT = (DEPLOY / "consumer.service").read_text()
COMMAND = str(Path(sys.executable).parent / "consumer")


def setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return value


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path):
    (tmp_path / "consumer.service").write_text(UNIT.replace("/opt/consumer/bin/consumer", COMMAND))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "consumer.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "consumer.service" in line]) == (0, [])


def test_the_unit_is_not_started_again_where_that_changes_nothing():
    never = {int(code) for code in setting("RestartPreventExitStatus").split()}
    page = (ROOT / "docs" / "operations.md").read_text()
    assert never <= set(EXIT_CODES.values())
    assert {10, 11, 12, 13, 14, 15} <= never  # as the page says
    assert not never & {0, 1, 18, 19, 21}  # what may pass, or passed
    assert "deploy/consumer.service" in page


def test_the_unit_gives_a_stop_more_time_than_it_can_take():
    assert float(setting("TimeoutStopSec")) > STOP_TIMEOUT_S + FORCE_S


def test_the_units_command_runs_with_its_environment_until_it_is_stopped(tmp_path: Path, patience_s: float):
    given = dict(pair.split("=", 1) for pair in re.findall(r"^Environment=(.*)$", UNIT, re.MULTILINE))
    given["CONSUMER_DB"] = given["CONSUMER_DB"].replace("/var/lib/consumer", str(tmp_path))
    command = shlex.split(setting("ExecStart").replace("/opt/consumer/bin/consumer", COMMAND))
    check_that_it_consumes_until_sigterm(command, given, tmp_path, patience_s)
    assert (tmp_path / "store.db").is_file()


def check_that_it_consumes_until_sigterm(
    command: list[str], given: dict[str, str], folder: Path, patience_s: float
) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CONSUMER_")}
    given = given | {"CONSUMER_URL": "tcp://127.0.0.1:9"}  # where nobody listens
    with subprocess.Popen(command, cwd=folder, env=clean | given, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("trying again" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=patience_s)
    assert process.returncode == 0


# --- the container file ---------------------------------------------------------------------------

INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]


def instructions(name: str) -> list[str]:
    return [text for instruction, text in INSTRUCTIONS if instruction == name]


def words(text: str) -> list[str]:
    return re.findall(r'"([^"]*)"', text)


def test_the_container_file_has_known_instructions_and_begins_with_an_image():
    known = {"FROM", "COPY", "RUN", "WORKDIR", "USER", "VOLUME", "ENV", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {instruction for instruction, _ in INSTRUCTIONS} <= known
    assert INSTRUCTIONS[0][0] == "FROM"
    assert instructions("USER") == ["10001"]


def test_what_the_container_file_copies_is_all_that_a_wheel_is_built_from(tmp_path: Path):
    for text in instructions("COPY"):
        *sources, target = text.split()
        place = tmp_path / target.lstrip("/")
        for source in sources:
            assert (ROOT / source).exists(), source
            copy = place / source if target.endswith("/") else place
            copy.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, copy)
            else:
                shutil.copy(ROOT / source, copy)
    install, make_folder = instructions("RUN")
    assert install == 'pip install --no-cache-dir "/src[postgres]"'
    build = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(tmp_path),
        str(tmp_path / "src"),
    ]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.whl"))
    make_folder = make_folder.replace("/data", str(tmp_path / "data")).replace("10001", str(os.getuid()))
    assert subprocess.run(["sh", "-ec", make_folder], check=False).returncode == 0
    assert (tmp_path / "data").is_dir()


def test_the_containers_command_runs_with_its_environment_until_it_is_stopped(tmp_path: Path, patience_s: float):
    given = dict(pair.split("=", 1) for text in instructions("ENV") for pair in text.split())
    given["CONSUMER_DB"] = given["CONSUMER_DB"].replace("/data", str(tmp_path))
    ((entry,), (command,)) = ([words(text) for text in instructions(name)] for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["consumer"]
    check_that_it_consumes_until_sigterm([COMMAND, *command], given, tmp_path, patience_s)
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
