"""What the store asks of a database, whichever it is: the questions, and the words that all answers share.

`sqlite.py` and `postgresql.py` answer. The transaction that asks is in `store/transaction.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from sqlalchemy import Connection, Engine
from sqlalchemy.sql import ClauseElement

from consumer.core.events import Events
from consumer.store.schema import Tables
from consumer.store.statements import Statements, StreamStatements

BEGIN_STATEMENT = "consumer_begin"
"""Execution option: what begins a transaction on SQLite, where it is not to be BEGIN IMMEDIATE."""

READ_ONLY = {BEGIN_STATEMENT: "BEGIN DEFERRED"}
"""Execution options for a transaction that only reads: it takes no write lock."""

REFUSED = "consumer_refused"
"""Key in a connection's `info`: what a handler tried that was refused, as a sentence."""

IN_HANDLER = "consumer_in_handler"
"""Key in a connection's `info`: true while a handler runs, when nobody may end the transaction."""


Insertion: TypeAlias = Callable[[Any, Events], int]
"""`insert(cursor, events)`: the number of rows that were inserted."""

Locking: TypeAlias = Callable[[Any, list[str]], Sequence[Any]]
"""`lock(cursor, names)`: the rows that there are."""

Moving: TypeAlias = Callable[[Any, list[dict[str, Any]]], int]
"""`move(cursor, rows)`, each row with the values of `statements.MOVED`: the number of rows that were changed."""


class Cause(Enum):
    """Who or what caused a failure of a database."""

    PASSING = "the server, the disk or another connection: it passes by itself"
    CONTENT = "what was to be written, which the database or a rule of the user's refuses"
    LASTING = "what somebody typed, granted or made: trying again changes nothing"


class Database(ABC):
    """One kind of database: its answers for the tables of one store."""

    PARAMSTYLE: ClassVar[str]

    CLOCK_MS: ClassVar[str]
    """SQL for the time by the database's own clock, in milliseconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        """Say over which engine."""
        self._dialect = type(engine.dialect)(paramstyle=self.PARAMSTYLE)  # type: ignore[call-arg]  # DefaultDialect's own

    def compile(self, statement: ClauseElement, schema: str) -> str:
        """Give a statement's text, once and for all, for the driver, with its values in a dict.

        Args:
            statement: one over this store's tables.
            schema: where they are. Each table is named with it, so that nothing that a session can put in front of
                them, such as a temporary table of the same name, is ever meant.
        """
        return str(
            statement.compile(dialect=self._dialect, schema_translate_map={None: schema}, render_schema_translate=True)
        )

    @abstractmethod
    def current_schema(self, connection: Connection, tables: Tables) -> str:
        """Give the schema that a store's tables are in where its user has named none.

        Raises:
            NotReady: there is none, or it is not clear which.
        """

    @abstractmethod
    def bound_waits(self, connection: Connection) -> None:
        """Have no statement of a transaction wait without end."""

    @abstractmethod
    def insertion(self, statements: Statements, schema: str) -> Insertion:
        """Give the function that inserts rows into the ledger, and says how many were."""

    @abstractmethod
    def locking(self, statements: StreamStatements, schema: str) -> Locking:
        """Give the function that locks the rows of streams and gives their columns, in the order of their names."""

    @abstractmethod
    def moving(self, statements: StreamStatements, schema: str) -> Moving:
        """Give the function that moves streams on, and says how many rows that has changed."""

    @abstractmethod
    def make_durable(self, connection: Connection) -> None:
        """Make durable what is committed and visible: a process that died in its commit may have left it otherwise.

        Called in a transaction, on SQLite under the write lock.

        Raises:
            SyncFailed: that cannot be done.
        """

    @abstractmethod
    def check_durability(self, connection: Connection, tables: Tables, schema: str) -> None:
        """Raise `UnsafeDurability` where a commit is not safe from a power cut."""

    @abstractmethod
    def check_place(self, connection: Connection) -> None:
        """Make sure that what is committed on this connection can be found again by others.

        Called first in a connection's first transaction, and then before anything is claimed of what it has committed.

        Raises:
            StoreReplaced: the database's file was deleted, moved or replaced while it was open.
        """

    @abstractmethod
    def own_cursor(self, driver: Any) -> Any:
        """Give a cursor for our own statements, whatever rows a handler has asked the connection for."""

    @abstractmethod
    def set_up(self, cursor: Any) -> None:
        """Begin a transaction's work: have it as the promise needs it.

        Raises:
            UnsafeDurability, DatabaseReadOnly: as for `lock`.
        """

    @abstractmethod
    def lock(self, cursor: Any, statement: str) -> Any:
        """The same, in one message with a locking statement, of which the first row is given.

        Raises:
            UnsafeDurability: what this transaction commits could be lost.
            DatabaseReadOnly: the server takes no changes now.
        """

    @abstractmethod
    def before_handler(self, connection: Connection) -> None:
        """Note what a handler might change for the session."""

    @abstractmethod
    def after_handler(self, connection: Connection) -> None:
        """Undo what a handler has set, before the commit: it must be as durable as was checked, and end in time."""

    @abstractmethod
    def was_changed(self, connection: Connection) -> bool:
        """Say whether a handler has left something on its connection that the next batch would meet all the same."""

    def commit(self, connection: Connection) -> None:
        """Commit. An error means that nobody knows whether it did."""
        connection.commit()

    @abstractmethod
    def interrupt(self, driver: Any) -> None:
        """Make the statement that runs on this connection, in another thread, fail. It need not succeed."""
