"""How an error ends the command: its code, and its line with the options that it is about."""

import re
from pathlib import Path

import pytest

import consumer
from consumer.cli import exits
from consumer.core import errors

HOUSE = Path(consumer.__file__).parent
LIBRARY = [path for path in HOUSE.rglob("*.py") if path.relative_to(HOUSE).parts[0] != "cli"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.TLSRefused("the certificate is not accepted"), "--tls-ca"),
        (errors.AddressInUse("127.0.0.1", 7000), "--port"),
    ],
)
def test_an_error_that_an_option_is_about_names_it(error: Exception, words: str):
    assert words in exits.explain(error)
    assert words not in str(error)


def test_a_line_of_the_other_kind_names_the_option(consumer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for given, options in (("5\n", ()), ("EVENT 0 5\n", ("--number",))):
        (tmp_path / "given").write_text(given)
        with (tmp_path / "given").open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            done = consumer("journal", "append", "journal", *options)
        assert done.code == 2
        assert "--number is for lines that are deltas alone" in done.err


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_the_library_names_no_option_of_the_command(path: Path):
    assert not re.findall(r"[ `(]--[a-z]+", path.read_text())


def test_each_error_of_the_tree_has_its_code():
    unmapped = {errors.ConsumerError, errors.ConnectFailed, errors.Retry}  # never end a command
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.ConsumerError) and kind not in unmapped:
            assert kind in exits.EXIT_CODES, kind
