"""PostgreSQL's whole list of codes: none is undecided, and what passes by itself is what the server does to a session."""

import psycopg
import pytest

from consumer.store.databases.base import Cause
from consumer.store.databases.sqlstates import CLASSES, EXCEPTIONS, cause_of_code, is_lasting_refusal

ALL = sorted(code for code in psycopg.errors._sqlcodes if len(code) == 5)
"""Every code of appendix A that psycopg knows, which makes its errors from PostgreSQL's own errcodes.txt."""

PASSING = {
    *("08000", "08001", "08003", "08004", "08006", "08007", "08P01"),
    *("25006", "25P03", "25P04"),
    *("40000", "40001", "40003", "40P01"),
    *("53000", "53100", "53200", "53300", "53400"),
    *("55006", "55P03"),
    *("57000", "57014", "57P01", "57P02", "57P03", "57P05"),
    *("58000", "58030"),
    "72000",
    "HV00N",
}


def test_the_list_is_all_of_them() -> None:
    assert len(ALL) > 250


@pytest.mark.parametrize("code", ALL)
def test_each_code_has_its_class(code: str) -> None:
    assert code[:2] in CLASSES
    assert (cause_of_code(code) is Cause.PASSING) == (code in PASSING)


def test_what_a_constraint_or_a_trigger_refuses_is_the_events() -> None:
    for code in ("23505", "23503", "22012", "P0001", "40002", "44000"):
        assert cause_of_code(code) is Cause.CONTENT


def test_a_code_that_nobody_knows_does_not_pass() -> None:
    assert cause_of_code("ZZ001") is Cause.LASTING


def test_no_exception_says_what_its_class_says() -> None:
    for code, cause in EXCEPTIONS.items():
        assert cause is not CLASSES[code[:2]] or code == "08P01"


@pytest.mark.parametrize("code", ["28000", "28P01", "3D000", "42501", "22023"])
def test_what_was_typed_is_refused_for_good(code: str) -> None:
    assert is_lasting_refusal(code)


@pytest.mark.parametrize("code", ["53300", "57P03", "55000", "08P01", "57P01"])
def test_a_server_that_is_full_or_starting_is_not(code: str) -> None:
    assert not is_lasting_refusal(code)
