from pathlib import Path

import pytest
from invented import make


@pytest.fixture
def runs(tmp_path) -> Path:
    """Five configurations over three seeds."""
    for seed in range(3):
        make(tmp_path / "runs", "none", seed=seed, rounds=6)
        for method in ("full", "ladp"):
            for epsilon in (0.2, 0.5):
                make(tmp_path / "runs", method, epsilon, seed, rounds=6)
    return tmp_path / "runs"
