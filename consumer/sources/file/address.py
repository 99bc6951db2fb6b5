"""A file as somebody names it, `file:///path/orders.jsonl` or just a path, and the stream that it is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote_to_bytes

from consumer.core.errors import InvalidURL

_URL = re.compile(r"file://(?:localhost)?(/[^?#]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileAddress:
    r"""Which file it is.

    Attributes:
        path: its absolute path. Symbolic links in it are followed each time it is opened.
        text: the same as a text that every database can hold: bytes that are no UTF-8 are written as `\xff`.
    """

    path: str
    text: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL, in which percent signs stand for bytes, or a path, in which nothing stands for anything else.

        Raises:
            InvalidURL: it is neither.
        """
        match = _URL.fullmatch(url)
        path = os.fsdecode(unquote_to_bytes(match[1])) if match else url
        if "\0" in path or not path or (not match and "://" in url):
            raise InvalidURL(
                f"{url!r} is no file's address: give file:///PATH, with % for special characters, or a path"
            )
        path = os.path.abspath(path)  # noqa: PTH100 - a link keeps its name
        return cls(path, os.fsencode(path).decode("utf-8", "backslashreplace"))

    @property
    def stream(self) -> str:
        """The stream's name, unless the user gives it another."""
        return f"file{self.text}"
