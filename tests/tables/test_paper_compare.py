"""Paper | ours | difference, from run folders and summaries."""

import json
import subprocess
import sys

import pytest
from scipy.stats import mannwhitneyu
from typer.testing import CliRunner

from ladp.cli.tables import app
from ladp.errors import Problem
from ladp.tables import load, ours
from ladp.tables.compare import compare


def ask(*arguments):
    """What `ladp tables` prints."""
    result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})
    if result.exception:
        raise result.exception
    return result.output


def write(root, method, epsilon, accuracy, noise, seed=0, seconds=100.0, partition="isolation-overlap", rounds=400, finished=True, model="cnn", data="cifar10"):
    """A run folder with two rounds' records."""
    folder = root / f"{method}-{epsilon}-{partition}-{seed}-{rounds}"
    folder.mkdir(parents=True)
    chosen = f'name = "{method}"\n' + (f"epsilon = {epsilon}\n" if epsilon else "")
    (folder / "recipe.toml").write_text(f'[run]\nmodel = "{model}"\ndata = "{data}"\nseed = {seed}\nrounds = {rounds}\nclients = 100\nactive = 10\n'
                                        f'[method]\n{chosen}[partition]\nname = "{partition}"\n')
    claimed = epsilon and {"epsilon": epsilon, "delta": 0.02, "unit": "record", "view": "one upload", "accountant": "its own"}
    (folder / "run.json").write_text(json.dumps({"method": method, "rounds": rounds, "seed": seed, "claimed": claimed, "certified": None}))
    records = [{"round": r, "clients": [1], "accuracy": accuracy - 0.01 * (rounds - r), "noise_scale": noise / 2, "seconds": seconds / 2,
                "accumulated": epsilon and {"epsilon": epsilon * r}} for r in (rounds - 1, rounds)]  # fmt: skip
    (folder / "rounds.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    if finished:
        (folder / "result.json").write_text(json.dumps({"accuracy": accuracy, "noise_scale": noise, "seconds": seconds}))
    return folder


@pytest.fixture
def runs(tmp_path):
    """Full DP and LaDP-FL at two budgets, two seeds of one."""
    write(tmp_path / "runs", "full", 0.2, 0.10, 60_000.0)
    write(tmp_path / "runs", "full", 0.5, 0.58, 24_000.0)
    write(tmp_path / "runs", "ladp", 0.2, 0.49, 30_000.0)
    write(tmp_path / "runs", "ladp", 0.5, 0.72, 12_000.0)
    write(tmp_path / "runs", "ladp", 0.5, 0.74, 14_000.0, seed=1)
    return tmp_path / "runs"


def row(rows, **where):
    found = [one for one in rows if where.items() <= one.items()]
    assert len(found) == 1
    return found[0]


def test_each_cell_of_ours_stands_beside_the_papers(runs):
    rows = compare(load("accuracy"), ours.read([runs]))
    one = row(rows, method="full", epsilon=0.5, quantity="accuracy")
    assert (one["model"], one["data"], one["printed"], one["paper"]) == ("cnn", "cifar10", "63.19", 63.19)
    assert one["ours"] == pytest.approx(58) and one["difference"] == pytest.approx(58 - 63.19) and one["ratio"] == pytest.approx(58 / 63.19)
    assert one["runs"] == 1 and one["deviation"] is None and one["shown"] == "58.00"


def test_seeds_are_averaged_and_their_deviation_shown(runs):
    one = row(compare(load("accuracy"), ours.read([runs])), method="ladp", epsilon=0.5, quantity="accuracy")
    assert one["ours"] == pytest.approx(73) and one["deviation"] == pytest.approx(2**0.5) and one["runs"] == 2 and one["shown"] == "73.00 ± 1.41"


def test_rates_are_computed_from_ours_where_both_sides_are_there(runs):
    rows = compare(load("accuracy"), ours.read([runs]))
    assert row(rows, quantity="improvement", epsilon=0.5)["ours"] == pytest.approx(100 * (73 - 58) / 58)
    assert row(rows, quantity="improvement", epsilon=0.2)["ours"] == pytest.approx(390)
    assert not [one for one in rows if one["epsilon"] == "mean"], "two budgets are no mean over four"
    assert row(compare(load("noise"), ours.read([runs])), quantity="reduction", epsilon=0.5)["ours"] == pytest.approx(100 * (24 - 13) / 24)


def test_the_mean_over_budgets_appears_with_the_last_of_them(runs):
    for epsilon, theirs, mine in ((0.3, 0.35, 0.63), (0.4, 0.49, 0.69)):
        write(runs, "full", epsilon, theirs, 1.0)
        write(runs, "ladp", epsilon, mine, 1.0)
    rates = [100 * (mine - theirs) / theirs for theirs, mine in ((10, 49), (35, 63), (49, 69), (58, 73))]
    assert row(compare(load("accuracy"), ours.read([runs])), epsilon="mean")["ours"] == pytest.approx(sum(rates) / 4)


def test_where_clients_differ_decides_the_table(runs):
    for name, distribution in (("labels", "I"), ("quantity", "II")):
        write(runs, "full", 0.2, 0.31, 7e5, partition=name, model="resnet18")
        assert row(compare(load("heterogeneity"), ours.read([runs])), distribution=distribution, quantity="accuracy")["ours"] == pytest.approx(31)
    assert not [one for one in compare(load("accuracy"), ours.read([runs])) if one["model"] == "resnet18"]


def test_p_values_are_of_the_last_rounds_at_all_shared_budgets(runs):
    one = row(compare(load("p-values"), ours.read([runs])), about="accuracy")
    mine, theirs = [48, 49, 71, 72, 73, 74], [9, 10, 57, 58]
    assert one["method"] == "full" and one["ours"] == pytest.approx(mannwhitneyu(mine, theirs, method="asymptotic").pvalue)


def test_two_configurations_at_one_place_are_both_shown_and_no_rate_is_made_of_them(runs):
    write(runs, "ladp", 0.5, 0.60, 9.0, rounds=80)
    measured = ours.read([runs])
    rows = [one for one in compare(load("accuracy"), measured) if one["epsilon"] == 0.5 and one["method"] == "ladp"]
    assert sorted(one["ours"] for one in rows) == pytest.approx([60, 73])
    assert not [one for one in compare(load("accuracy"), measured) if one["quantity"] == "improvement" and one["epsilon"] == 0.5]
    assert [remark for one in measured for remark in one.remarks] == ["run.rounds 80, the paper's 400"]


def test_where_a_run_is_not_the_papers_is_said(tmp_path):
    folder = write(tmp_path, "ladp", 0.5, 0.7, 1.0, partition="isolation")
    text = (folder / "recipe.toml").read_text().replace("active = 10", "active = 20\nvalidation = 0.1").replace("epsilon = 0.5", 'epsilon = 0.5\nbound = 1e-7\nkappa = 0.02')
    (folder / "recipe.toml").write_text(text + "[training]\nlr = 0.05\nepochs = 2\n")
    assert ours.read([tmp_path])[0].remarks == (
        "run.validation 0.1, the paper's 0.0", "training.lr 0.05, the paper's 0.1", "run.active 20, the paper's 10",
        "partition.name isolation, the paper's isolation-overlap", "method.kappa 0.02, the paper's 0.01")  # fmt: skip


def test_the_heterogeneous_partitions_are_the_papers_own(tmp_path):
    write(tmp_path, "full", 0.2, 0.3, 1.0, partition="quantity")
    assert ours.read([tmp_path])[0].remarks == ()


def test_runs_that_did_not_finish_are_left_out(tmp_path):
    write(tmp_path, "full", 0.2, 0.1, 1.0, finished=False)
    with pytest.raises(Problem, match="no finished run under"):
        ours.read([tmp_path])


def test_runs_the_table_has_no_place_for_are_refused_by_name(tmp_path):
    write(tmp_path, "full", 0.2, 0.1, 1.0, data="digits")
    with pytest.raises(Problem, match="table 'accuracy' has no entry for these runs \\(full cnn@digits\\)"):
        compare(load("accuracy"), ours.read([tmp_path]))


@pytest.fixture
def summary(tmp_path):
    path = tmp_path / "summary.json"
    runs = [dict(method="full", epsilon=0.2, seed=s, precision="bf16", rounds=400, accuracy=10.0 + s, noise_scale=60_500.0, training_seconds=43.0) for s in (0, 1)]
    runs += [dict(method="ladp", epsilon=0.2, seed=0, precision="bf16", stopped="sigma came out inf")]
    path.write_text(json.dumps({"model": "cnn", "data": "cifar10", "preset": "as-run", "runs": runs}))
    return path


def test_a_summary_of_runs_stands_for_their_folders(summary):
    one = row(compare(load("accuracy"), ours.read([summary])), quantity="accuracy")
    assert (one["method"], one["epsilon"], one["runs"], one["ours"]) == ("full", 0.2, 2, 10.5) and one["label"] == "full ε 0.2 bf16"
    assert row(compare(load("noise"), ours.read([summary])))["shown"] == "60,500"


def test_what_is_no_summary_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"runs": 3}')
    with pytest.raises(Problem, match="x.json is not a summary of runs"):
        ours.read([tmp_path / "x.json"])


def test_the_statements_of_the_text_are_made_of_ours_where_ours_suffice(runs):
    with pytest.raises(Problem, match="'text' has no entry"):
        compare(load("text"), ours.read([runs]))
    write(runs, "time-varying", 0.5, 0.3, 1.0, model="resnet18")
    write(runs, "full", 0.5, 0.3, 4.0, model="resnet18", partition="isolation")
    assert row(compare(load("text"), ours.read([runs])), claim="below-full/time-varying")["ours"] == pytest.approx(75)


def test_the_command_line_prints_paper_ours_and_difference_in_every_form(runs):
    rows = json.loads(ask("compare", "accuracy", runs, "--json"))
    assert row(rows, method="full", epsilon=0.2, quantity="accuracy")["ours"] == pytest.approx(10)
    text = ask("compare", "accuracy", runs)
    assert all(word in text for word in ("paper", "ours", "difference", "63.19", "58.00", "−5.19", "no ε of these tables is certified"))
    piped = ask("compare", "accuracy", runs, "--format", "markdown")
    assert "| 0.5 | accuracy | full | full ε 0.5 | 63.19 | 58.00 | −5.19 | 0.918 | 1 |" in piped
    assert r"0.5 & accuracy & full & full $\varepsilon$ 0.5 & 63.19 & 58.00 & $-$5.19 & 0.918 & 1 \\" in ask("compare", "accuracy", runs, "--format", "latex")
    assert ask("compare", "accuracy", runs, "--format", "csv").splitlines()[0].startswith("table,distribution,model,data,epsilon,quantity,method,printed,paper")


@pytest.mark.parametrize("arguments, complaint", [
    (["show", "nois"], "did you mean 'noise'"), (["show", "noise", "--format", "pdf"], "unknown format 'pdf'"), (["check", "nois"], "did you mean 'noise'"),
    (["compare", "noise", "nowhere"], "no folder nowhere"), (["compare", "noise", "no.json"], "no.json is not a summary"), (["metrics", "nowhere"], "cannot read"),
])
def test_what_is_not_there_is_named(arguments, complaint):
    with pytest.raises(Problem, match=complaint):
        ask(*arguments)


def test_a_refusal_is_one_line_and_exit_code_two():
    done = subprocess.run([sys.executable, "-c", "from ladp.cli import main; main()", "tables", "show", "nois"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "did you mean 'noise'" in done.stderr and not done.stdout


def test_tables_are_listed_shown_and_checked():
    assert {one["name"]: one["entries"] for one in json.loads(ask("list", "--json"))}["accuracy"] == 196
    shown = json.loads(ask("show", "accuracy", "--json"))
    assert len(shown) == 196 and row(shown, printed="8.4A")["paper"] == 8.44
    assert "8.4A: A stands for 4" in ask("show", "accuracy") and "| 8.4A |" in ask("show", "accuracy", "--format", "markdown")
    assert "330 of 366" in ask("check") and "100 of 100" in ask("check", "accuracy")
    assert len(json.loads(ask("check", "noise", "--json"))) == 100
    assert "recomputed" in ask("check", "--format", "csv").splitlines()[0]
