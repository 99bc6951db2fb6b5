"""Five hundred consumers of the worst kinds, and a good one among them."""

# ruff: noqa: ASYNC240 - files are small here

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from .helpers import Peer, Serve, acks, connect, lines, seqs_in

EACH = 100
"""How many of each kind: they are five."""

LIMIT_S = 6
"""Long enough for the good one to acknowledge in time, on a machine that has much else to do."""

MEMORY_KIB_MAX = 32 * 1024
"""How much more memory five hundred of them may take: each fifth of them alone has sent 6.4 MB or is owed 7 MB."""

KINDS = {
    "no RESUME": b"",
    "half a RESUME": b"RESUME -",
    "a RESUME of 64 KiB": b"RESUME " + b"1" * 65536,
    "an ACK for nothing": b"RESUME 19999\nACK 20000\n",
    "never reading": b"RESUME -1\n",
}


@pytest.fixture
def hostile() -> Iterator[ExitStack]:
    """Where their sockets stay open; none of them is ever read from."""
    with ExitStack() as sockets:
        yield sockets


async def test_the_good_one_is_served_and_the_others_are_closed_with_a_reason(
    path: Path,
    serving: Callable[..., Serve],
    meet: Callable[..., Awaitable[Peer]],
    hostile: ExitStack,
    patience_s: float,
) -> None:
    count = 20_000
    path.write_bytes(lines(0, count))
    serve = serving(limits={"handshake_s": LIMIT_S, "silence_s": LIMIT_S})
    port = await serve.port()
    await (await meet(port, b"RESUME -1\n")).hear_line()
    before = serve.peak_kib()

    for said in KINDS.values():
        for _ in range(EACH):  # each has spoken before the next one comes, however slow this machine is
            peer = hostile.enter_context(connect(port, patience_s))
            with suppress(ConnectionError):  # closed in the middle of it
                peer.sendall(said)
    good = await meet(port, b"RESUME -1\n")
    for first in range(0, count, 1000):
        heard = await good.hear(len(lines(first, 1000)))
        assert seqs_in(heard) == list(range(first, first + 1000))
        good.say(acks(range(first, first + 1000)))

    await serve.wait_for_log("closed: ", 5 * EACH + 1)  # with the first one of all
    text = serve.log.read_text()
    assert text.count(f"no ACK for {LIMIT_S} s while events were unacknowledged") == EACH + 1
    assert text.count(f"no RESUME within {LIMIT_S} s") == 2 * EACH
    assert text.count("instead of RESUME") == EACH
    assert text.count("it acknowledged event 20000, but 19999 was the last that it was sent") == EACH
    assert serve.peak_kib() - before < MEMORY_KIB_MAX
    assert serve.end() == 0  # and the good one is still there at the stop
    assert "the publisher stops (event 19999 acknowledged, 19999 sent)" in serve.log.read_text()
