"""What strace has seen, as data: each system call with its file, its place in the order of things, and what it gave.

Pure but for `strace_command`, which is how the trace must be taken to be readable here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

CALLS = "openat,pwrite64,write,ftruncate,unlink,unlinkat,rename,fsync,fdatasync,sendto,sendmsg,recvfrom"
"""What changes a file, makes it durable, or is said and heard on a socket."""


def strace_command(output: Path, *options: str, shown_bytes: int = 256) -> list[str]:
    """Give what stands before a command to trace it, with its threads and children.

    Args:
        output: where the trace goes.
        options: more for strace, such as a fault that it is to inject.
        shown_bytes: how much of a call's data the trace has. What is said and heard at once must not be longer.
    """
    return [
        *("strace", "-f", "--seccomp-bpf", "-qq", "-yy", "-s", str(shown_bytes), "-o", str(output)),
        *("-e", f"trace={CALLS}", "-e", "signal=none", *options, "--"),
    ]


@dataclass(frozen=True, slots=True)
class Call:
    """One system call.

    Attributes:
        name: of the call.
        file: the path that it works on; for a socket what strace calls it, which begins with its kind.
        began: its place in the order of all beginnings and ends.
        ended: the same of its end; None where the process died in it.
        result: what it returned; None where it failed or never returned.
        thread: whose it is.
        text: the data, as much as the trace has of it.
        offset: where in the file; the new length for a truncation.
        flags: of an `openat`.
    """

    name: str
    file: str
    began: int
    ended: int | None
    result: int | None
    thread: int
    text: str = ""
    offset: int = 0
    flags: str = ""


_WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(.*)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+|\?)(.*)")
_DESCRIPTOR = re.compile(r"-?\w+<((?:TCP|UNIX|NETLINK)[^\]]*\][^>]*|[^>]*)>")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_SIZE_AND_OFFSET = re.compile(r", (\d+), (\d+)$")
_LENGTH = re.compile(r", (\d+)$")


def parse(lines: Iterable[str], first: int = 0) -> list[Call]:
    """Read a trace.

    Args:
        lines: of strace's output.
        first: the place that the first of them has, where this trace follows on another.

    Returns:
        The calls, by their beginnings.
    """
    calls: list[Call] = []
    begun: dict[str, tuple[int, str]] = {}
    for place, line in enumerate(lines, first):
        if (match := _WHOLE.fullmatch(line)) is not None:
            thread, name, arguments, result, _ = match.groups()
            calls.append(_call(name, arguments, place, place, result, thread))
        elif (match := _BEGUN.fullmatch(line)) is not None:
            begun[match[1]] = (len(calls), match[3])
            calls.append(_call(match[2], match[3], place, None, "?", match[1]))
        elif (match := _RESUMED.fullmatch(line)) is not None and match[1] in begun:
            index, arguments = begun.pop(match[1])
            whole = _call(match[2], arguments + match[3], calls[index].began, place, match[4], match[1])
            calls[index] = whole
    return calls


def _call(name: str, arguments: str, began: int, ended: int | None, result: str, thread: str) -> Call:
    descriptor, string = _DESCRIPTOR.match(arguments), _STRING.search(arguments)
    call = Call(
        name,
        descriptor[1] if descriptor else "",
        began,
        ended,
        int(result) if result != "?" and int(result) >= 0 else None,
        int(thread),
    )
    match name:
        case "openat" | "unlink" | "unlinkat" | "rename":
            path = string[1] if string else ""
            folder = call.file if name in ("openat", "unlinkat") else ""
            return replace(call, file=path if path.startswith("/") else f"{folder}/{path}", flags=arguments)
        case "pwrite64":
            numbers = _SIZE_AND_OFFSET.search(arguments)
            return replace(call, offset=int(numbers[2]) if numbers else 0)
        case "ftruncate":
            length = _LENGTH.search(arguments)
            return replace(call, offset=int(length[1]) if length else 0)
        case "sendto" | "recvfrom" if call.file.startswith("TCP"):
            text = string[1].replace("\\n", "\n") if string else ""
            if string is not None and string[2]:
                raise ValueError(f"the trace has too little of what was said: {arguments}")
            return replace(call, text=text)
    return call
