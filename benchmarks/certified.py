"""What certified privacy costs on CIFAR-10: 100 clients with disjoint shards of 500, scattering features, unit record, delta 1e-5, accuracy at epsilon 1, 3 and 8.

    python benchmarks/certified.py --root DATA --out RUNS --case peer --seeds 0 1 2 --summary results/certified-peer.json

Each case is a recipe with its settings chosen on held-out records (results/README.md says how). Runs are run folders and go on where they were cut off; the summary
holds each one's recipe digest, seed, versions, device, accuracy, what is certified in every view, and the multiplier.
"""

import argparse
import json
from functools import cache
from pathlib import Path

from ladp import data, experiment, folder
from ladp.recipe import Recipe, compose, dump

READ = cache(data.load)
SHARED = {
    "run": dict(data="cifar10", features="scattering", model="linear", clients=100, active=100, mean="equal", evaluate_every=10, engine="stacked", precision="float32"),
    "partition": {"name": "iid"},
}
CASES: dict[str, dict] = {}  # filled below: tables by case and epsilon
