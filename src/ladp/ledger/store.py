"""The SQLite file under a ledger: rows in their order and the head, under SQLite's own locks, on the disk before a call returns."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep

from ladp.errors import Problem
from ladp.ledger.entry import Entry, Row
from ladp.ledger.head import Head

APPLICATION, FORMAT = 0x4C614450, 1  # "LaDP"
BUSY, PAUSE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}, 0.01
WRITING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
TABLES = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, client TEXT, run TEXT, round INTEGER, unit TEXT, charges TEXT, replay TEXT, time REAL, seal TEXT)",
    "CREATE TABLE head (sequence INTEGER, seal TEXT, origin TEXT)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's own primary code of what went wrong."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def corrupt(path: Path, why: object) -> Problem:
    """A ledger that cannot be believed."""
    return Problem(f"ledger {path} is corrupt: {why}; nothing was repaired and nothing may leave: put a true and complete copy back, or count the budget as spent")


class Store:
    """Rows in, rows out; every failure is a Problem of one line."""

    def __init__(self, path: Path, timeout: float):
        self.path, self.timeout = path, timeout
        with self._asking():
            self.db = sqlite3.connect(path, timeout, isolation_level=None, check_same_thread=False)
            self._recognise()
            mode = self._ahead()
            self.db.execute("PRAGMA synchronous = FULL")
        if mode != "wal":
            raise Problem(f"ledger {path}: its file system cannot share memory between processes; keep it on a local disk")
        self.place = self._where()

    def _ahead(self) -> str:
        """A write-ahead log from now on; SQLite does not wait by itself while another process asks for the same."""
        until = monotonic() + self.timeout
        while True:
            try:
                return self.db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if _code(error) not in BUSY or monotonic() > until:
                    raise
            sleep(PAUSE)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a mistake of the program's, such as a ledger that is closed already
        except sqlite3.DatabaseError as error:
            raise self._problem(error) from error

    def _problem(self, error: sqlite3.DatabaseError) -> Problem:
        code = _code(error)
        if code in BUSY:
            return Problem(f"ledger {self.path} has been locked by another process for {self.timeout:g} s: end that process or wait for it")
        if code in WRITING:
            return Problem(f"ledger {self.path} cannot be written: {error}; nothing may leave: free space or grant the right to write")
        return corrupt(self.path, error)

    def _where(self) -> tuple[int, int]:
        """Which file it is, whatever its name."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise corrupt(self.path, f"it was taken away while in use ({error.strerror})") from error
        return found.st_dev, found.st_ino

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One writer at a time, over all processes: what is done inside is on the disk afterwards, or undone."""
        with self._asking():
            self.db.execute("BEGIN IMMEDIATE")
            try:
                if self._where() != self.place:
                    raise corrupt(self.path, "another file was put in its place while in use")
                yield
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise

    def _recognise(self) -> bool:
        """Whether the file is a ledger already; one that is anything else is left as it is."""
        tables = self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]  # first: another process may be founding it
        kind, format = (self.db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if kind == APPLICATION and format != FORMAT:
            raise Problem(f"ledger {self.path} has format {format}, and this version reads {FORMAT}: use the version that wrote it")
        if kind != APPLICATION and (kind or tables):
            raise Problem(f"{self.path} is a database, but no ledger: name another file")
        return kind == APPLICATION

    def found(self) -> None:
        """The tables of a file that is still empty; to be called alone."""
        if not self._recognise():
            for table in TABLES:
                self.db.execute(table)
            self.db.execute("INSERT INTO head VALUES (0, ?1, ?1)", (token_hex(32),))

    def check(self) -> None:
        """Whether all pages of the file are whole."""
        with self._asking():
            found = self.db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise corrupt(self.path, found.replace("\n", " "))

    def read(self, after: int) -> tuple[Head, list[Row]]:
        """Where the file says that it stands, and its releases after a number: one glance, whoever else writes."""
        with self._asking():
            rows = self.db.execute("SELECT head.*, entries.* FROM head LEFT JOIN entries ON entries.sequence > ? ORDER BY entries.sequence", (after,)).fetchall()
        if not rows or [type(value) for value in rows[0][:3]] != [int, str, str]:
            raise corrupt(self.path, "it does not say where it stands")
        return Head(*rows[0][:2]), [row[3:] for row in rows if row[3] is not None]

    def origin(self) -> Head:
        """What the first seal follows: random, so that no two ledgers are alike."""
        with self._asking():
            found = self.db.execute("SELECT origin FROM head").fetchone()
        return Head(0, found[0] if found else "")

    def seal(self, sequence: int) -> str | None:
        """Of one release; before the first it is the origin."""
        with self._asking():
            found = self.db.execute("SELECT seal FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return found[0] if found else self.origin().seal if sequence == 0 else None

    def entry(self, sequence: int) -> Entry:
        """One release."""
        with self._asking():
            return Entry.of(self.db.execute("SELECT * FROM entries WHERE sequence = ?", (sequence,)).fetchone())

    def append(self, rows: Iterable[Row], head: Head) -> None:
        """More releases; to be called alone."""
        with self._asking():
            self.db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self.db.execute("UPDATE head SET sequence = ?, seal = ?", (head.sequence, head.seal))

    def close(self) -> None:
        """Give the file back."""
        self.db.close()
