"""Run folders → one page or one table; nothing is trained here."""

from ladp.report.headline import rows
from ladp.report.page import write
from ladp.report.table import text

__all__ = ["rows", "text", "write"]
