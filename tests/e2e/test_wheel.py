"""The wheel, built from a copy of the project and installed where nothing of the checkout is in reach."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import consumer as under_test

ROOT = Path(under_test.__file__).resolve().parent.parent
BUILD_TIMEOUT_S = 120

Call = Callable[..., subprocess.CompletedProcess[str]]


def call(*command: str | Path, **how: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(command), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False, **how)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """An sdist, the wheel made from it, and the wheel made from the project itself."""
    folder = tmp_path_factory.mktemp("built")
    files = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split("\0")
    for name in files:
        if name and (ROOT / name).is_file():
            (folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "project" / name)
    build = [sys.executable, "-m", "build", "--no-isolation", folder / "project", "--outdir"]
    call(*build, folder / "both")
    call(*build, folder / "direct", "--wheel")
    [sdist], [wheel], [direct] = (
        folder.joinpath("both").glob("*.tar.gz"),
        folder.joinpath("both").glob("*.whl"),
        folder.joinpath("direct").glob("*.whl"),
    )
    return sdist, wheel, direct


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment that has the wheel, and the dependencies of the one that runs this."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", built[1])
    [packages] = folder.glob("lib/python*/site-packages")
    # Only now, so that pip does not meet the editable install; its own .pth file is not read from here.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Call:
    """Run something of that environment from another folder, with nothing else in the environment."""

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
        return call(installed / program, *arguments, cwd=tmp_path, env=environment)

    return run


def test_a_wheel_has_the_package_with_its_migrations_the_pytest_plugin_and_nothing_else(built: tuple[Path, Path, Path]):
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
    assert {
        "consumer/__init__.py",
        "consumer/py.typed",
        "consumer/migrations/env.py",
        "consumer/migrations/script.py.mako",
        "consumer/migrations/versions/0001_checkpoint_and_ledger.py",
        "consumer/migrations/versions/0002_records.py",
    } <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "consumer",
        "resumable_consumer_pytest.py",
    }
    assert not any("test_" in name or "__pycache__" in name for name in names)


def test_the_wheel_from_the_sdist_is_the_one_from_the_project(built: tuple[Path, Path, Path]):
    _, from_sdist, direct = built
    with zipfile.ZipFile(from_sdist) as one, zipfile.ZipFile(direct) as other:
        assert {info.filename: info.CRC for info in one.infolist()} == {
            info.filename: info.CRC for info in other.infolist()
        }


def test_the_sdist_has_what_the_project_is_worked_on_with(built: tuple[Path, Path, Path]):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"Makefile", "LICENSE", "alembic.ini", "migrations/env.py", "tests/conftest.py", "pyproject.toml"} <= names
    assert "resumable_consumer_pytest.py" in names


def test_what_is_installed_is_the_wheel(run: Call, installed: Path):
    where = run("python", "-c", "import consumer; print(consumer.__file__)").stdout.strip()
    assert Path(where).is_relative_to(installed.parent)
    where = run("python", "-c", "from consumer import migrate; print(migrate._folder())").stdout.strip()
    assert Path(where).is_relative_to(installed.parent)


def test_the_store_is_made_and_shown_from_another_folder(run: Call, url: str):
    assert run("consumer", "upgrade", "--db", url).stdout == "the store is at revision 0002: it was created\n"
    assert (
        run("consumer", "status", "--db", url).stdout == "last -1, total 0, 0 ledger rows\nrevision 0002, head 0002\n"
    )
    shown = json.loads(run("consumer", "status", "--db", url, "--json").stdout)
    assert (shown["last"], shown["revision"], shown["head"], shown["streams"]) == (-1, "0002", "0002", [])


def test_the_script_is_printed(run: Call, tmp_path: Path):
    script = run("consumer", "upgrade", "--sql", "--db", "postgresql://nobody@nowhere.invalid/x").stdout
    assert "CREATE TABLE ledger" in script
    assert "BIGINT" in script
    assert "CREATE TABLE ledger" in run("consumer", "upgrade", "--sql").stdout
    assert not list(tmp_path.iterdir())


def test_the_demo_holds(run: Call):
    done = run("consumer", "demo")
    assert done.stdout.rstrip().splitlines()[-1].startswith("holds")
    assert done.stderr == ""


def test_a_learners_one_line_is_the_whole_contract(run: Call, tmp_path: Path):
    (tmp_path / "client.py").write_text("from consumer import *\n")
    code = "import client; con = client.open_store('x.db'); print(client.apply_event(con, 0, 5), client.state(con)); con.close()"
    assert run("python", "-c", f"import sys; sys.path.insert(0, '.'); {code}").stdout == "True (0, 5)\n"
