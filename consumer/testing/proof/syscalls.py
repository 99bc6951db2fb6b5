"""Have the process die inside a system call: at its entry, before the kernel has done any of it.

A seccomp filter for the calling thread, which any process may install for itself; nothing has to be installed and no
other process has to attach. What the kernel does is what SIGKILL does, with another number (SIGSYS): no line of Python
and no `finally` runs after it. Linux on x86-64 and on 64-bit ARM.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

SYNC = ("fsync", "fdatasync")
"""What SQLite's COMMIT waits for."""

ANSWER = ("poll", "ppoll", "recvfrom")
"""What the client's COMMIT waits for on PostgreSQL, after it was sent."""

_NUMBERS = {
    "x86_64": {"fsync": 74, "fdatasync": 75, "poll": 7, "ppoll": 271, "recvfrom": 45},
    "aarch64": {"fsync": 82, "fdatasync": 83, "ppoll": 73, "recvfrom": 207},
}
"""The kernel's numbers of the calls, by machine. 64-bit ARM has no poll, only ppoll."""

# From linux/prctl.h, seccomp.h and bpf_common.h.
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_OFFSET = 0
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def can_die_in_calls() -> bool:
    """Say whether this system has what is needed here."""
    return sys.platform == "linux" and platform.machine() in _NUMBERS and sys.maxsize > 1 << 32


def die_in_next(calls: tuple[str, ...]) -> None:
    """From now on have the process die where this thread enters one of these system calls. There is no way back.

    Args:
        calls: names, see `SYNC` and `ANSWER`.

    Raises:
        OSError: this system does not let us, or has no such thing.
    """
    if not can_die_in_calls():
        raise OSError("to die inside a system call needs Linux on x86-64 or 64-bit ARM")
    known = _NUMBERS[platform.machine()]
    numbers = [known[call] for call in calls if call in known]
    instructions = [struct.pack("HBBI", _LOAD_WORD, 0, 0, _NUMBER_OFFSET)]
    for to_go, number in zip(reversed(range(len(numbers))), numbers, strict=True):
        instructions.append(struct.pack("HBBI", _JUMP_IF_EQUAL, to_go + 1, 0, number))
    instructions.append(struct.pack("HBBI", _RETURN, 0, 0, _ALLOW))
    instructions.append(struct.pack("HBBI", _RETURN, 0, 0, _KILL_PROCESS))
    code = ctypes.create_string_buffer(b"".join(instructions))
    program = _Program(len(instructions), ctypes.addressof(code))
    control = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in (
        (_PR_SET_DUMPABLE, 0, 0, 0, 0),  # SIGSYS would leave a core file where SIGKILL leaves none
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if control(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "seccomp is not to be had here")
