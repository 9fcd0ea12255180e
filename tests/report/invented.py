"""Synthetic run folders: invented numbers in the true format, for the report's tests only."""

import json
import math
from pathlib import Path

import numpy as np

LAYERS = {"conv1.weight": 216, "conv1.bias": 8, "conv2.weight": 1152, "conv2.bias": 16, "fc1.weight": 8192, "fc1.bias": 64,
          "fc2.weight": 640, "fc2.bias": 10}
REASONS = {"none": ["uploads leave without noise"],
           "full": ["σ follows the paper's formula, whose constant is too small for δ = 0.02",
                    "the clip bounds the mean gradient of a mini-batch, not the gradient of one record"],
           "ladp": ["layers whose norm is below R leave without noise",
                    "σ depends on the private weights through P and through the selection of layers"]}


def make(root: Path, method="full", epsilon=0.5, seed=0, rounds=30, reached=None, every=1, layers=LAYERS, **recipe) -> Path:
    """One run folder; `reached` < rounds leaves it unfinished."""
    epsilon = None if method == "none" else epsilon
    folder = root / f"{method}-{epsilon or 'free'}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text(_recipe(method, epsilon, seed, rounds, recipe), "utf-8")
    (folder / "run.json").write_text(json.dumps(_facts(method, epsilon, seed, rounds, layers)), "utf-8")
    records = [_round(place, method, epsilon, seed, rounds, every, layers) for place in range(1, (reached or rounds) + 1)]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    if reached is None:
        last = {key: records[-1][key] for key in ("accuracy", "loss")}
        result = last | {"digest": f"{seed:064x}", "rounds": rounds, "seconds": sum(r["seconds"] for r in records),
                         "noise_scale": sum(r["noise_scale"] for r in records)}
        (folder / "result.json").write_text(json.dumps(result), "utf-8")
    return folder


def _recipe(method, epsilon, seed, rounds, recipe) -> str:
    lines = ["[run]", f"seed = {seed}", f"rounds = {rounds}", "clients = 20", "active = 5",
             'data = "digits"', 'model = "cnn-small"', "", "[method]",
             f"name = {json.dumps(method)}", *([f"epsilon = {epsilon}"] if epsilon else []), "", "[partition]", 'name = "dirichlet"', "alpha = 0.5",
             *(f"{key} = {json.dumps(value)}" for key, value in recipe.items())]
    return "\n".join(lines) + "\n"


def _facts(method, epsilon, seed, rounds, layers) -> dict:
    claimed = None if epsilon is None else {"epsilon": epsilon, "delta": 0.02, "unit": "record", "view": "one upload",
                                            "accountant": "the paper's Theorem 3, per round"}
    certified = {"epsilon": "inf", "delta": 0.02, "unit": "record", "view": "server", "accountant": "none applies",
                 "reasons": REASONS.get(method, ["no proof is known for this method"])}
    return {"digest": f"{hash_of(method, epsilon):064x}", "version": "0.1.0", "torch": "2.13.0", "python": "3.11.9",
            "device": "cpu", "engine": "parallel", "precision": "float32", "method": method, "model": "cnn-small", "data": "digits",
            "weights": sum(layers.values()), "layers": list(layers), "train": 1437, "test": 360, "seed": seed, "clients": 20,
            "active": 5, "rounds": rounds, "claimed": claimed, "certified": certified}


def hash_of(method, epsilon) -> int:
    return int.from_bytes(f"{method}{epsilon}".encode(), "big") * 2654435761 % 2**256


def _round(place, method, epsilon, seed, rounds, every, layers) -> dict:
    numbers = np.random.default_rng([place, seed, hash_of(method, epsilon) % 2**32])
    reach = 0.97 if epsilon is None else (0.6 + 0.5 * epsilon if method == "full" else 0.75 + 0.32 * epsilon)
    accuracy = min(reach - (reach - 0.1) * math.exp(-5 * place / rounds) + numbers.normal(0, 0.012), 1.0)
    norms, weights, shares = _noise(method, epsilon, place, numbers, layers)
    shown = place % every == 0 or place == rounds
    spent = None if epsilon is None else {"epsilon": 2 * epsilon * (1 + place // 3), "delta": 0.02 * (1 + place // 3),
                                          "client": 3}
    return {"round": place, "clients": [3, 7, 8, 11, 19], "accuracy": accuracy if shown else None,
            "loss": 2.4 * (1.05 - accuracy) if shown else None, "train_loss": 1.2, "claimed_epsilon": epsilon,
            "accumulated": spent, "noise_scale": sum(norms.values()), "noise": norms,
            "sigma": {layer: norm / math.sqrt(layers[layer]) for layer, norm in norms.items()}, "P": weights,
            "KL": weights and {layer: 3 * weight for layer, weight in weights.items()},
            "selected": shares, "seconds": 0.3 + numbers.uniform(0, 0.1), "examples_per_second": 9000, "memory": 4 * 10**8}


def _noise(method, epsilon, place, numbers, layers):
    if epsilon is None:
        return {}, None, {}
    weights = {layer: 1e-2 / size * math.exp(numbers.normal(0, 0.4)) * (1 + place / 10) for layer, size in layers.items()}
    sigma = {layer: 0.01 * 2.88 / epsilon * (1 if method == "full" else 0.5 + 1e-5 / weight)
             for layer, weight in weights.items()}
    shares = {layer: 1.0 if method == "full" else 0.0 if layer.endswith("bias") and place < 4 else 0.8 for layer in layers}
    norms = {layer: sigma[layer] * math.sqrt(size) * shares[layer] for layer, size in layers.items()}
    return norms, None if method == "full" else weights, shares
