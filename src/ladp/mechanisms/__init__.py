"""Every method, one file and one line each."""

from ladp.mechanisms.adapldp import AdapLDP
from ladp.mechanisms.dpa import DPA
from ladp.mechanisms.full import Full
from ladp.mechanisms.ladp import LaDP
from ladp.mechanisms.none import NoNoise
from ladp.mechanisms.sensitive import Sensitive
from ladp.mechanisms.time_varying import TimeVarying
from ladp.privacy.mechanism import Mechanism

METHODS: dict[str, type[Mechanism]] = {method.name: method for method in (NoNoise, Full, TimeVarying, Sensitive, DPA, AdapLDP, LaDP)}
