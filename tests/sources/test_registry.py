"""Which source a URL names: ours, those of other packages, and what cannot be used is named."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumer import open_source
from consumer.core.errors import InvalidOption, InvalidURL, SourceUnusable
from consumer.sources.file.source import FileSource
from consumer.sources.registry import BUILT_IN, schemes

Install = Callable[..., None]

SOURCE = "class Source:\n    def __init__(self, url, *, once=False, table='orders'):\n        self.said = (url, once, table)\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install packages that offer sources, as pip would: by what stands in their metadata."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def make(package: str, code: str, **points: str) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{scheme} = {target}\n" for scheme, target in points.items())
        (folder / "entry_points.txt").write_text(f"[consumer.sources]\n{lines}")

    yield make
    for name in set(sys.modules) - before:
        if name.startswith("of_others"):
            del sys.modules[name]


@pytest.mark.parametrize("url", ["file:///x", "FILE:///x", "/x", "orders.jsonl", "./a b?#"])
def test_a_file_and_a_bare_path_are_files(url: str) -> None:
    assert isinstance(open_source(url), FileSource)


def test_a_source_of_another_package_gets_the_url_and_the_options(install: Install) -> None:
    install("of_others_a", SOURCE, table="of_others_a:Source")
    source = open_source("table://host/x?y", once=True, table="paid")
    assert source.said == ("table://host/x?y", True, "paid")
    assert "table" in schemes()


def test_only_the_source_that_is_asked_for_is_loaded(install: Install) -> None:
    install("of_others_a", SOURCE, table="of_others_a:Source")
    install("of_others_b", "raise RuntimeError('loaded')", queue="of_others_b:Source")
    open_source("table://x")
    open_source("file:///x")
    assert {"queue", "table", "file"} <= {*schemes()}
    assert "of_others_b" not in sys.modules


@pytest.mark.parametrize("scheme", [*BUILT_IN, "tcp", "tls"])
def test_a_built_in_scheme_cannot_be_taken(install: Install, scheme: str) -> None:
    install("of_others_a", "raise RuntimeError('loaded')", **{scheme: "of_others_a:Source"})
    if scheme in BUILT_IN:
        open_source(f"{scheme}:///x")
    else:
        with pytest.raises(InvalidURL, match="carries events"):
            open_source(f"{scheme}://127.0.0.1:7000")
        assert scheme not in schemes()
    assert "of_others_a" not in sys.modules


def test_an_unknown_scheme_is_an_error_that_lists_what_there_is(install: Install) -> None:
    install("of_others_a", SOURCE, table="of_others_a:Source")
    with pytest.raises(InvalidURL) as caught:
        open_source("amqp://user:secret@host/x")
    assert "no source for amqp://" in str(caught.value)
    assert "file://, table://" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_two_packages_for_one_scheme_are_named(install: Install) -> None:
    install("of_others_a", SOURCE, table="of_others_a:Source")
    install("of_others_b", SOURCE, table="of_others_b:Source")
    with pytest.raises(InvalidURL, match=r"table://: of_others_[ab], of_others_[ab]"):
        open_source("table://x")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_driver", "of_others_a cannot be loaded: No module named 'no_such_driver'"),
        ("", "of_others_a cannot be loaded: module 'of_others_a' has no attribute 'Source'"),
        ("raise RuntimeError", "of_others_a cannot be loaded: RuntimeError"),
        ("Source = 3", "no class or function but 3"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named_with_the_reason(install: Install, code: str, words: str) -> None:
    install("of_others_a", code, table="of_others_a:Source")
    with pytest.raises(SourceUnusable) as caught:
        open_source("table://x")
    assert words in str(caught.value)


def test_an_option_that_a_source_does_not_take_is_named_with_those_it_takes(install: Install) -> None:
    install("of_others_a", SOURCE, table="of_others_a:Source")
    with pytest.raises(InvalidOption, match="table:// takes no 'group'; it takes once, table"):
        open_source("table://x", group="g")
    with pytest.raises(InvalidOption, match="file:// takes no 'group'; it takes name, once"):
        open_source("x", group="g")


def test_a_source_that_takes_any_option_gets_them(install: Install) -> None:
    install("of_others_a", "def Source(url, **options):\n    return url, options\n", table="of_others_a:Source")
    assert open_source("table://x", group="g") == ("table://x", {"group": "g"})
