"""Opening a damaged journal in a process that dies by SIGKILL before its step STEP, or comes to an end.

    python die_in_repair.py JOURNAL STEP

A step is a call that changes a file, or makes a change durable; half of what is written is one too. What it prints are
the steps that were taken.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from consumer.core import disk
from consumer.publisher import Appender

steps = itertools.count()


def dying_before(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any) -> Any:
        if next(steps) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        print(name, flush=True)  # noqa: T201 - it speaks to its parent
        return call(*arguments)

    return step


def main() -> None:
    write = dying_before("write", os.write)
    os.write = lambda descriptor, data: write(descriptor, data[: max(len(data) // 2, 1)])
    os.ftruncate = dying_before("cut", os.ftruncate)
    disk.sync_file = dying_before("sync_file", disk.sync_file)
    disk.sync_folder = dying_before("sync_folder", disk.sync_folder)
    Appender(sys.argv[1]).close()


if __name__ == "__main__":
    main()
