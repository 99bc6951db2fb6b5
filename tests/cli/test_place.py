"""Commands in messages: they can be pasted into a shell as they are, name the same store, and hold no password."""

import subprocess
from pathlib import Path

import pytest

from consumer.cli.place import Place

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("place", "command"),
    [
        (Place("sqlite:///store.db"), "consumer upgrade --db sqlite:///store.db"),
        (Place("sqlite:////a/store.db", "shop_"), "consumer upgrade --db sqlite:////a/store.db --prefix shop_"),
        (
            Place("postgresql://somebody@host/db", "shop_", "Own Schema"),
            "consumer upgrade --db postgresql://somebody@host/db --prefix shop_ --schema 'Own Schema'",
        ),
        (Place(f"postgres://somebody:{SECRET}@host/db"), "consumer upgrade --db postgresql://somebody@host/db"),
        (
            Place(f"postgresql://somebody@host/db?password={SECRET}&sslmode=require"),
            "consumer upgrade --db 'postgresql://somebody@host/db?sslmode=require'",
        ),
    ],
)
def test_a_command_names_the_store_as_a_shell_takes_it(place: Place, command: str):
    assert place.command("upgrade") == command


@pytest.mark.parametrize("name", ["store.db", "my store's.db", "a;b.db", "$(touch x).db"])
def test_the_command_in_a_message_does_what_the_message_is_about(consumer, tmp_path: Path, name: str):
    done = consumer("status", "--db", f"sqlite:///{name}")
    assert done.code == 16
    words = as_a_shell_reads(done.err.partition(": run ")[2])
    assert consumer(*words[1:]).code == 0
    assert consumer("status", "--db", f"sqlite:///{name}").code == 0
    assert (tmp_path / name).is_file()


def as_a_shell_reads(command: str) -> list[str]:
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_the_command_goes_with_the_tables_that_were_asked_for(consumer):
    done = consumer("status", "--prefix", "shop_")
    assert done.code == 16
    assert done.err.endswith(": run consumer upgrade --db sqlite:///consumer.db --prefix shop_\n")
    assert consumer("upgrade", "--prefix", "shop_").code == 0
    assert consumer("status", "--prefix", "shop_").code == 0
    assert consumer("status").code == 16


def test_on_a_server_run_names_the_command_too(consumer, postgres_url: str):
    done = consumer("run", "tcp://127.0.0.1:9", "--db", postgres_url, "--prefix", "shop_")
    assert done.code == 16
    words = as_a_shell_reads(done.err.partition(": run ")[2])
    assert words[:3] == ["consumer", "upgrade", "--db"]
    assert words[4:] == ["--prefix", "shop_"]
    assert consumer(*words[1:]).code == 0
    assert consumer("status", "--db", postgres_url, "--prefix", "shop_").code == 0


def test_a_schema_is_that_of_the_options(consumer, postgres_url: str):
    assert consumer("upgrade", "--db", postgres_url, "--schema", "public").code == 0
    assert consumer("status", "--db", postgres_url, "--schema", "public").code == 0
    done = consumer("status", "--db", postgres_url, "--schema", "nowhere")
    assert done.code == 16
    assert "nowhere" in done.err
