"""Run folders → one page or one table; nothing is trained here."""

from ladp.report.headline import certified, rows
from ladp.report.page import write

__all__ = ["certified", "rows", "write"]
