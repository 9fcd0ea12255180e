"""Membership is found where a model has learnt its records by heart, and not behind noise; an attack leaves the run as it was and can be cut off."""

import json
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ladp import attacks, experiment
from ladp.attacks.confidence import confidence, loss, spread
from ladp.attacks.membership import Membership
from ladp.attacks.scene import Scene
from ladp.attacks.shadows import Shadows
from ladp.attacks.targets import Targets
from ladp.errors import Problem
from ladp.mechanisms import Certified, Full, NoNoise
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Training
from ladp.recipe import Recipe, load
from ladp.report.runs import find
from ladp.training.stacked import Cohort

SMALL = Recipe(method=NoNoise(), clients=4, active=4, rounds=8, training=Training(epochs=5, batch=6), validation=0.95, evaluate_every=8, engine="sequential", device="cpu")
SHORT = replace(SMALL, rounds=2, clients=5, active=3, training=Training(epochs=1, batch=10), evaluate_every=2)


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Path:
    """A run that knows its 72 records by heart."""
    out = tmp_path_factory.mktemp("known") / "run"
    experiment.run(SMALL, out)
    return out


@pytest.fixture
def short(tmp_path) -> Path:
    experiment.run(SHORT, tmp_path / "run")
    return tmp_path / "run"


def found(run, **options):
    *_, last = attacks.carry_out(Membership(**options), run)
    return last


def scene(run, attack):
    digest = attack.digest(load(run / "recipe.toml").digest)
    return Scene.of(run, run / "attacks" / f"membership-{digest[:8]}", digest)


def shadows(run, attack) -> Shadows:
    sight = scene(run, attack)
    return Shadows(sight, Targets.draw(sight, range(sight.recipe.clients), attack.records, True), attack.shadows)


def told(record):
    return {name: record[name] for name in ("scores", "notes", "pictures", "view")}


def files(run):
    return {path: sha256(path.read_bytes()).hexdigest() for path in run.rglob("*") if path.is_file() and "attacks" not in path.relative_to(run).parts}


def test_records_known_by_heart_are_found_by_their_loss(known):
    scores = found(known)["scores"]
    assert scores["members"] == 72 and scores["others"] == 1365
    assert scores["loss"]["auc_interval"][0] > 0.5 and scores["loss"]["tpr_at_0.1%_fpr"] is not None


def test_shadow_federations_find_members_whom_a_coin_chose(known):
    record = found(known, how="lira", shadows=6)
    coins = record["scores"]["by_coin"]
    assert min(coins[name]["auc_interval"][0] for name in ("loss", "lira_online", "lira_offline")) > 0.5
    assert record["scores"]["members"] == record["scores"]["others"] == 72 and record["pictures"] == ["roc", "roc-by-coin"]


def test_an_upload_tells_more_of_its_client_than_the_models_do(known):
    record = found(known, seen="uploads", observed=0)
    assert record["view"] == "server" and record["scores"]["members"] == 18 and record["scores"]["rounds_seen"] == 8
    assert record["scores"]["gain"]["auc_interval"][0] > 0.5
    assert record["scores"]["gain"]["auc"] > found(known, client=0)["scores"]["loss"]["auc"]


def test_behind_strong_noise_nothing_is_found(tmp_path):
    experiment.run(replace(SMALL, method=Full(epsilon=0.01), rounds=2, evaluate_every=2), tmp_path / "run")
    for options in ({}, {"how": "lira", "shadows": 6}, {"seen": "uploads"}):
        scores = found(tmp_path / "run", **options)["scores"]
        rates = [value for name, value in {**scores, **scores.get("by_coin", {})}.items() if "auc" in (value if isinstance(value, dict) else {})]
        assert rates and all(low - 0.05 <= 0.5 <= high + 0.05 for low, high in (rate["auc_interval"] for rate in rates))
        assert all(rate["tpr_at_1.0%_fpr"] is None or rate["tpr_at_1.0%_fpr"] < 0.12 for rate in rates)


def test_an_attack_leaves_the_run_as_it_was_and_finds_the_same_again(short):
    before = files(short)
    first = [told(found(short, **options)) for options in ({"observed": 0}, {"how": "lira", "shadows": 6}, {"seen": "uploads"})]
    assert files(short) == before
    for path in (short / "attacks").rglob("findings.json"):
        path.unlink()
    assert [told(found(short, **options)) for options in ({"observed": 0}, {"how": "lira", "shadows": 6}, {"seen": "uploads"})] == first


def test_shadows_charge_nobodys_ledger_and_are_no_runs_of_a_report(tmp_path):
    budget, ledger = Budget(epsilon=50.0, unit="record", rate=1.0), tmp_path / "ledger.sqlite"
    experiment.run(replace(SHORT, method=Certified(), mean="equal", budget=budget, ledger=str(ledger)), tmp_path / "runs" / "run")
    before = sha256(ledger.read_bytes()).hexdigest()
    scores = found(tmp_path / "runs" / "run", how="lira", shadows=6)["scores"]
    assert sha256(ledger.read_bytes()).hexdigest() == before and find([tmp_path / "runs"]) == [tmp_path / "runs" / "run"]
    assert scores["certified"]["unit"] == "record" and scores["certified"]["view"].startswith("peer") and scores["claimed"]["epsilon"] == 50


@pytest.mark.parametrize("options", [{"observed": 0}, {"how": "lira", "shadows": 6}], ids=str)
def test_an_attack_that_was_cut_off_finds_what_it_would_have_found(short, options, monkeypatch):
    monkeypatch.setattr("ladp.attacks.confidence.SECONDS", 0.0)
    whole = told(found(short, **options))
    for path in (short / "attacks").rglob("findings.json"):
        path.unlink()
    cut(short / "attacks")
    for after in (1, 3, 5):
        with closing(attacks.carry_out(Membership(**options), short)) as events:
            list(islice(events, after))
    assert told(found(short, **options)) == whole


def cut(folder):
    """Away with all that it has kept."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def test_shadows_are_opposite_halves_and_have_as_many_records_as_the_run(short):
    sight = shadows(short, Membership(how="lira", records=40, shadows=6))
    held = sight.held
    assert (held[::2] ^ held[1::2]).all() and (held.sum(1) == 40).all() and held.shape == (6, 80)
    train = len(sight.scene.dataset)
    others = np.setdiff1d(np.arange(train), sight.targets.members)
    for number in range(6):
        chosen, tested = sight.records(number)
        assert sorted([*chosen.tolist(), *tested.tolist()]) == list(range(train + len(sight.scene.dataset.test_labels)))
        assert len(chosen) == train and np.isin(others, chosen).all()
        pool = np.concatenate([sight.targets.members, train + sight.targets.strangers])
        np.testing.assert_array_equal(np.isin(pool, chosen), held[number])


def test_a_shadow_trains_on_its_own_records_and_on_no_others(short):
    sight = shadows(short, Membership(how="lira", shadows=6))
    data = sight.dataset(1)
    work, _ = experiment.prepare(sight.recipe(1), read=lambda *_: data)
    trained = np.concatenate([work.split.indices(client) for client in range(len(work.split))])
    np.testing.assert_array_equal(np.sort(trained), np.sort(data.chosen))
    torch.testing.assert_close(work.images[trained[0]], torch.cat([sight.scene.dataset.images, sight.scene.dataset.test_images])[trained[0]])


def test_shadows_trained_together_are_those_trained_one_after_the_other(tmp_path, monkeypatch):
    sure, asked, train = [], [], Cohort.train
    monkeypatch.setattr(Cohort, "train", lambda self, several: (asked.append(len(several)), train(self, several))[1])
    for engine in ("sequential", "stacked"):
        experiment.run(replace(SHORT, engine=engine, precision="float64"), tmp_path / engine)
        sight = shadows(tmp_path / engine, Membership(how="lira", shadows=6))
        list(sight.train())
        watch = sight.watch([2], *sight.targets.take(sight.scene))
        sure.append(value_of(watch))
    assert max(asked) == 6  # one computation for all shadows
    torch.testing.assert_close(*sure, rtol=1e-6, atol=1e-8)


def value_of(generator):
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value


def test_confidence_is_the_logit_of_the_right_class_and_tells_the_loss():
    model, images, labels = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 5)).double(), torch.randn(7, 1, 4, 4, dtype=torch.float64), torch.arange(7) % 5
    share = model(images).softmax(1)[torch.arange(7), labels].detach()
    phi = confidence(model, images, labels)
    torch.testing.assert_close(phi, (share / (1 - share)).log())
    torch.testing.assert_close(loss(phi), F.cross_entropy(model(images), labels, reduction="none").detach())


def test_what_is_seen_is_spread_evenly_and_ends_with_the_last():
    assert spread(range(1, 13), 1) == [12] and spread(range(1, 13), 3) == [4, 8, 12] and spread([2, 5, 9], 0) == spread([2, 5, 9], 7) == [2, 5, 9]
    assert all(len(set(spread(range(1, 18), count))) == count for count in range(1, 18))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"how": "guess"}, "loss or lira, got 'guess'"), ({"seen": "noise"}, "models or uploads"), ({"variance": "none"}, "fixed or record"), ({"shadows": 7}, "even and at least 6, got 7"),
        ({"shadows": 4}, "even"), ({"records": -1}, "at least 0, got -1"), ({"how": "lira", "seen": "uploads"}, "--how loss"), ({"client": 9}, "between 0 and 4, got 9"), ({"records": 3}, "at least 4 of each"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(short, options, words):
    with pytest.raises(Problem, match=words):
        found(short, **options)


def test_a_client_that_took_no_part_has_no_members(tmp_path):
    experiment.run(replace(SHORT, rounds=1, active=1, evaluate_every=1), tmp_path / "run")
    present = json.loads((tmp_path / "run" / "rounds.jsonl").read_text())["clients"]
    absent = next(client for client in range(5) if client not in present)
    with pytest.raises(Problem, match=f"client {absent} took no part in 1 rounds.*such as {present[0]}"):
        found(tmp_path / "run", client=absent)
    record = found(tmp_path / "run", how="lira", shadows=6)
    assert record["scores"]["members"] == 14 and any("14 of 72 training records" in note for note in record["notes"])


def test_a_run_that_is_not_finished_is_refused(tmp_path):
    out = experiment.create(SHORT, tmp_path / "run")
    with closing(experiment.play(out)) as records:
        next(records)
    with pytest.raises(Problem, match="at round 1 of 2.*ladp resume"):
        found(out)
    experiment.finish(out)
    assert found(out)["scores"]["last_round_seen"] == 2
