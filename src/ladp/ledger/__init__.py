"""What every client has released, on the disk before it leaves: the budget of a client's lifetime, over all runs that share the file.

`Ledger.charge` returns when the release is on the disk (SQLite, write-ahead log, synchronous = FULL); only then may it leave. A process
that is killed at any instant has therefore never let out what is not charged; at most it has charged what never left, and that stays
charged. Rows hold events (multiplier, rate, times), never epsilons: what they add up to is worked out when asked for. Time is written down for
people; nothing depends on it, nor on the order of clocks.

Charged once: a run that was cut off plays the round again. In simulation the same seed lets the same upload out, bit for bit, and
whoever has seen it learns nothing from seeing it again. So a charge that comes with the digest of what is about to leave (`replay`),
for a client, run, round and unit that have a row with the same digest and the same charges, is that row. Everything else is charged again: another
digest, none, or noise that no seed decides.

Unit record and unit client are kept apart: a sum is over the releases of one unit, and says nothing of the other's.

What is detected, and the ledger then refused: pages that SQLite finds malformed; a row that was changed, removed, put in or put elsewhere (each row's seal is
a sha256 over the seal before and all its content); rows cut off at the end, with or without the write-ahead log (the head is kept in a
table and, outside the database, in FILE.head); an older copy of the file put back alone; another file put in its place, even while it is in use.
What the file and its FILE.head cannot show: an older copy of *both*, both deleted, or a chain that somebody wrote anew from the first row with
a matching FILE.head, since no secret is in it. Against these give an `anchor`: a path elsewhere (another disk, a share of the auditor's) where
the head is kept too and compared whenever the ledger is opened. Whoever can change the anchor as well can change anything. After a power failure
FILE.head may be some seconds behind the database, and shows that much less; the anchor never is.
"""

from ladp.ledger.entry import Entry, name_run
from ladp.ledger.ledger import Ledger, Report
from ladp.ledger.spending import Exhausted, Limit, Refusal

__all__ = ["Entry", "Exhausted", "Ledger", "Limit", "Refusal", "Report", "name_run"]
