"""What a user may type to name a file, and the stream that it is."""

import os
from pathlib import Path

import pytest

from consumer.core.errors import InvalidURL
from consumer.sources.file.address import FileAddress


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///var/log/orders.jsonl", "/var/log/orders.jsonl"),
        ("FILE:///x", "/x"),
        ("file://localhost/x", "/x"),
        ("file:///a%20b%3F%23%25", "/a b?#%"),
        ("file:///%C3%A4", "/ä"),
        ("file:///a/../b//c", "/b/c"),
        ("/a b?#%20", "/a b?#%20"),
        ("/x", "/x"),
        ("/file:x", "/file:x"),
    ],
)
def test_a_file_is_named_by_a_url_or_a_path(url: str, path: str) -> None:
    assert FileAddress.parse(url).path == path


def test_a_relative_path_is_taken_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert FileAddress.parse("orders.jsonl").path == f"{tmp_path}/orders.jsonl"


@pytest.mark.parametrize(
    "url",
    ["", "file://", "file://host/x", "file://x", "file:///x?y=1", "file:///x#y", "http://x/y", "a\0b", "file:///%00"],
)
def test_what_is_no_files_address_is_refused_by_name(url: str) -> None:
    with pytest.raises(InvalidURL) as caught:
        FileAddress.parse(url)
    assert repr(url) in str(caught.value)


def test_a_streams_name_is_the_path_as_a_text_that_a_database_holds() -> None:
    assert FileAddress.parse("/var/log/ö.jsonl").stream == "file/var/log/ö.jsonl"
    address = FileAddress.parse("file:///%FF.jsonl")
    assert os.fsencode(address.path) == b"/\xff.jsonl"
    assert address.stream == "file/\\xff.jsonl"
