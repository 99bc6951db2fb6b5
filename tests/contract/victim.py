"""A receiver in a process of its own that dies where it is told to.

python victim.py client PORT PATH HOW SEQ     HOW is kill, exit or never: what before_ack does at SEQ
python victim.py apply PATH HOW SEQ DELTA     dies inside the transaction, in fault
"""

import asyncio
import os
import signal
import sys

from consumer import apply_event, open_store, run_client


def die(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(42)


def client(port: str, path: str, how: str, at: str) -> None:
    def before_ack(seq: int) -> None:
        if seq == int(at):
            die(how)

    last, total = asyncio.run(run_client("127.0.0.1", int(port), path, 60, before_ack))
    sys.stdout.write(f"{last} {total}\n")


def apply(path: str, how: str, seq: str, delta: str) -> None:
    con = open_store(path)
    apply_event(con, int(seq), int(delta), lambda: die(how))
    con.close()


if __name__ == "__main__":
    {"client": client, "apply": apply}[sys.argv[1]](*sys.argv[2:])
