"""What PostgreSQL's codes mean for a consumer: who caused a failure.

What a server does to a session passes by itself. What somebody typed, granted or made does not. What a constraint or a
trigger of the user's refuses belongs to the event. The list is PostgreSQL's appendix A, a class at a time; where a code
differs from its class it stands below the class.
"""

from __future__ import annotations

from consumer.store.databases.base import Cause

PASSING, CONTENT, LASTING = Cause.PASSING, Cause.CONTENT, Cause.LASTING

READ_ONLY_TRANSACTION = "25006"

CLASSES = {
    "00": LASTING,  # success is no error
    "01": LASTING,  # nor is a warning
    "02": LASTING,  # nor is it that there is no data: whoever raises it has made a mistake
    "03": LASTING,  # a statement that is not complete
    "08": PASSING,  # the connection broke, or was not made
    "09": CONTENT,  # an action that a trigger has started failed
    "0A": LASTING,  # a feature that this server does not have
    "0B": LASTING,  # a transaction begun in a wrong way
    "0F": LASTING,  # a large object's locator
    "0L": LASTING,  # who may grant
    "0P": LASTING,  # a role that there is not
    "0Z": LASTING,  # diagnostics used in a wrong way
    "10": LASTING,  # XQuery
    "20": LASTING,  # a CASE without its case, in a function of the user's
    "21": CONTENT,  # more rows than one: what the data are
    "22": CONTENT,  # data that a type does not take
    "23": CONTENT,  # constraints
    "24": LASTING,  # a cursor in a wrong state
    "25": LASTING,  # a transaction in a wrong state
    "26": LASTING,  # a prepared statement that is not there
    "27": CONTENT,  # a trigger has changed what was being changed
    "28": LASTING,  # a password or a role that was refused
    "2B": LASTING,  # privileges that depend on others
    "2D": LASTING,  # a transaction ended in a wrong way
    "2F": LASTING,  # a function of the user's breaks its own promises
    "34": LASTING,  # a cursor that there is not
    "38": LASTING,  # a function of the user's, in another language
    "39": LASTING,  # how such a function was called
    "3B": LASTING,  # a savepoint that there is not
    "3D": LASTING,  # a database that there is not
    "3F": LASTING,  # a schema that there is not
    "40": PASSING,  # the server rolled the transaction back: deadlocks, serialization
    "42": LASTING,  # a statement or a privilege that does not fit the schema
    "44": CONTENT,  # a view's WITH CHECK OPTION
    "53": PASSING,  # connections, memory or disk that are not to be had
    "54": LASTING,  # a limit of the server's
    "55": LASTING,  # an object in a state that does not allow this
    "57": PASSING,  # the administrator, or the server itself, has intervened
    "58": PASSING,  # the system under the server failed
    "72": PASSING,  # a snapshot that has become too old
    "F0": LASTING,  # the server's configuration
    "HV": LASTING,  # a foreign data wrapper
    "P0": CONTENT,  # raised by a function or a trigger of the user's
    "XX": LASTING,  # an internal error, or damage
}
"""The two characters that a code begins with."""

EXCEPTIONS = {
    "08P01": PASSING,  # what a pooler says for all that it does not like, a server that is down first of all
    READ_ONLY_TRANSACTION: PASSING,  # a standby, or a server that is read-only for the minutes of a failover
    "25P03": PASSING,  # idle_in_transaction_session_timeout has ended the session
    "25P04": PASSING,  # transaction_timeout has ended the session
    "40002": CONTENT,  # a constraint, found at the end of the transaction
    "55006": PASSING,  # somebody else uses it just now
    "55P03": PASSING,  # lock_timeout, or NOWAIT
    "57P04": LASTING,  # the database was dropped
    "58P01": LASTING,  # a file that is not there, such as a library of an extension
    "58P02": LASTING,  # a file that is there already
    "58P03": LASTING,  # a file's name that is too long
    "HV00N": PASSING,  # a foreign server could not be reached
}


def cause_of_code(code: str) -> Cause:
    """Say who caused a failure. A class that nobody knows, such as an extension's own, is lasting."""
    return EXCEPTIONS.get(code, CLASSES.get(code[:2], LASTING))


def is_lasting_refusal(code: str) -> bool:
    """Say whether a server that refuses a connection with this code will go on doing so.

    A database that allows no connections for a while refuses with 55000, which is lasting elsewhere.
    """
    return cause_of_code(code) is not PASSING and not code.startswith("55")
