"""The paper's tables as data, its arithmetic done again, and ours beside it."""

from ladp.tables.table import NAMES, Entry, Table, load

__all__ = ["NAMES", "Entry", "Table", "load"]
