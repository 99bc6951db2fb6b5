"""The lab's client as a process: `python line_client.py PORT FILE`. What it raises is one line, and exit code 19."""

import asyncio
import sys

from consumer import run_client

TIMEOUT_S = 30.0
FAILED = 19

if __name__ == "__main__":
    try:
        asyncio.run(run_client("127.0.0.1", int(sys.argv[1]), sys.argv[2], TIMEOUT_S))
    except Exception as error:  # noqa: BLE001 - whatever it was
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(FAILED)
