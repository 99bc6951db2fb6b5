"""The list is up to date, the runner tells its verdicts apart, and the promises that matter most are guarded for real.

`make mutants` does all of the list.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .breakage import Breakage, OutOfDateError
from .breakages import BREAKAGES
from .trial import BASELINE_LIMIT_S, ROOT, Copy, Verdict

CENTRAL = (
    "the cursor moves in a transaction of its own",
    "nobody looks whether the cursor was moved",
    "a duplicate is not compared with what was recorded",
    "ACK before commit",
    "RESUME from memory",
    "no sync before RESUME",
    "the contract's client: ACK before commit",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    copy = Copy(tmp_path_factory.mktemp("mutants") / "copy", {})
    yield copy
    copy.stop()


def test_every_breakage_can_be_made_and_has_a_name_of_its_own() -> None:
    for breakage in BREAKAGES:
        breakage.find(ROOT)
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES)


def test_every_test_that_must_notice_one_is_there(copy: Copy) -> None:
    code, _, printed = copy.run([breakage.test for breakage in BREAKAGES], BASELINE_LIMIT_S, "--collect-only")
    assert code == 0, printed


def test_it_is_the_copy_that_is_run(copy: Copy) -> None:
    assert copy.which_consumer() == str(copy.folder / "consumer" / "__init__.py")


@pytest.mark.parametrize("name", CENTRAL)
def test_it_is_noticed(copy: Copy, name: str) -> None:
    (breakage,) = (breakage for breakage in BREAKAGES if breakage.name == name)
    path, _ = breakage.find(copy.folder)
    before = path.read_text()
    verdict, printed = copy.try_one(breakage)
    assert verdict is Verdict.KILLED, printed
    assert path.read_text() == before


QUICK = "tests/core/test_events.py::test_a_delta_out_of_range_is_found"


@pytest.mark.parametrize(
    ("where", "old", "new", "test", "verdict"),
    [
        ("core.events:", "DELTA_MAX = 1000", "DELTA_MAX = 999 + 1", QUICK, Verdict.SURVIVED),
        ("Events.if_valid", "min(deltas) < -DELTA_MAX", "min(deltas) < -DELTA_MAX - 1", QUICK, Verdict.KILLED),
        ("core.events:", "DELTA_MAX = 1000", "DELTA_MAX = no_such_name", QUICK, Verdict.BROKEN),
        ("Events.if_valid", "min(deltas) < -DELTA_MAX", "min(deltas) < -9999", f"{QUICK}_too", Verdict.BROKEN),
    ],
)
def test_verdicts_are_told_apart(copy: Copy, where: str, old: str, new: str, test: str, verdict: Verdict) -> None:
    assert copy.try_one(Breakage("one of this test's", where, old, new, test))[0] is verdict


@pytest.mark.parametrize(
    ("where", "old", "new", "words"),
    [
        ("Events.if_valid", "no_such_name", "", "0 times"),
        ("Events.continue_after", "last + 1", "last", "2 times, not once"),
        ("core.events:", "DELTA_MAX = 1000", "DELTA_MAX = (", "no Python"),
        ("Nothing.at_all", "1", "2", "there are 0 places"),
        ("main", "1", "2", "places 'main', not one"),
    ],
)
def test_an_entry_that_no_longer_fits_is_an_error(where: str, old: str, new: str, words: str) -> None:
    with pytest.raises(OutOfDateError, match=words):
        Breakage("one of this test's", where, old, new, QUICK).find(ROOT)


def test_code_is_found_whatever_its_lines_and_comments_look_like(tmp_path) -> None:
    for place in ("consumer", "migrations"):
        (tmp_path / place).mkdir()
    room = tmp_path / "consumer" / "room.py"
    room.write_text("class A:\n    def b(self):\n        return (  # why\n            1\n            + 2\n        )\n")
    path, broken = Breakage("one", "A.b", "1 + 2", "3", QUICK).find(tmp_path)
    assert path == room
    assert "return (  # why\n            (3)\n        )" in broken
    path, broken = Breakage("one", "A.b", "return 1 + 2", "", QUICK).find(tmp_path)
    assert broken == "class A:\n    def b(self):\n        pass\n"
