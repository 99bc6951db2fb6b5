"""Run one command on one core and report what it cost, as one line of JSON.

Linux counts what a process held before exec() into its peak memory, so a consumer started by a large
parent would seem at least as large as that. This parent is small (start it with `-S -E`) and imports
as little as it can. `os.wait4` covers the command and every process that it waited for.

    python -S -E measure.py CORE|any SECONDS COMMAND …
"""

import os
import signal
import sys


def main() -> None:
    core, limit_s, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    child = os.fork()
    if child == 0:
        try:
            if core != "any":
                os.sched_setaffinity(0, {int(core)})
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(limit_s)
    _, status, usage = os.wait4(child, 0)
    signal.alarm(0)
    cpu_s = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    print(f'{{"exit": {code}, "cpu_s": {cpu_s}, "peak_kib": {usage.ru_maxrss}}}', file=sys.stderr)


if __name__ == "__main__":
    main()
