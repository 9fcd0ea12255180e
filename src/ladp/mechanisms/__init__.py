"""Every method, one file and one line each."""

from ladp.mechanisms.full import Full
from ladp.mechanisms.ladp import LaDP
from ladp.mechanisms.none import NoNoise
from ladp.privacy.mechanism import Mechanism

METHODS: dict[str, type[Mechanism]] = {method.name: method for method in (NoNoise, Full, LaDP)}
