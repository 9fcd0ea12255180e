"""Canaries are put into a federation by coin, it is trained once, and what an adversary guesses of the coins refutes an epsilon: docs/audit.md."""
