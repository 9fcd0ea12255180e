"""An attack finds a run as it was, leaves it as it was, and keeps what it found."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import ClassVar

import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

from ladp import attacks, experiment
from ladp.attacks import pictures
from ladp.attacks.attack import Attack, Findings, Step, option, refuse_unless
from ladp.attacks.scene import Scene
from ladp.cli import attack as command
from ladp.errors import Problem
from ladp.mechanisms import Full
from ladp.privacy.budget import Budget
from ladp.report.attacks import read


@dataclass(frozen=True)
class Watching(Attack):
    """Sees all rounds and adds up what was sent."""

    name: ClassVar[str] = "watching"
    view: ClassVar[str] = "server"
    upto: int = option(4, "rounds to watch")
    stop: bool = option(False, "stop in the middle")

    def __post_init__(self) -> None:
        refuse_unless(self.upto > 0, self, "upto", "at least 1")

    def carry_out(self, scene: Scene) -> Iterator[Step | Findings]:
        state, own = scene.recall()
        total = own.get("total", torch.zeros(1, dtype=torch.float64))
        for event in scene.rounds(state, self.upto):
            total = total + event.uploads.double().sum()
            scene.save(event.state, {"total": total})
            yield Step(event.state.round, self.upto)
            if self.stop and event.state.round == 2:
                raise Problem("stopped")
        image = torch.full((2, 1, 4, 4), 7, dtype=torch.uint8)
        yield Findings({"total": total.item(), "deep": {"draw": float(torch.rand(1, generator=scene.key.at("draw").generator()))}}, {"sheet": pictures.sheet("Title", {"a<b": image})}, ("a note",))


@pytest.fixture
def run(recipe, tmp_path):
    experiment.run(recipe, tmp_path / "run")
    return tmp_path / "run"


def last(attack, run):
    return list(attacks.carry_out(attack, run))[-1]


def digests(run):
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in run.iterdir() if path.is_file()}


def test_rounds_played_again_are_the_runs_own_to_the_last_bit_and_its_files_stay_as_they_are(run):
    before, scene = digests(run), Scene.of(run, run / "attacks", "0")
    states = [event.state for event in scene.rounds()]
    assert len(states) == 6 and torch.equal(states[-1].current, scene.final().current) and digests(run) == before


def test_a_run_under_a_budget_is_played_again_without_being_charged(recipe, tmp_path):
    out = tmp_path / "run"
    experiment.run(replace(recipe, method=Full(), mean="equal", norm="none", rounds=3, budget=Budget(epsilon=100.0, rate=0.5)), out)
    before, scene = digests(out), Scene.of(out, out / "attacks", "0")
    assert torch.equal(list(scene.rounds())[-1].state.current, scene.final().current) and digests(out) == before


def test_findings_are_kept_and_a_finished_attack_is_only_read(run):
    found = last(Watching(), run)
    kept = json.loads((run / "attacks" / f"watching-{found['digest'][:8]}" / "findings.json").read_text())
    assert kept == found and found["options"] == {"upto": 4, "stop": False} and found["recipe"] and found["device"] == "cpu" and found["view"] == "server"
    assert list(attacks.carry_out(Watching(), run)) == [found]


def test_an_attack_that_was_cut_off_goes_on_to_the_same_findings(run):
    with pytest.raises(Problem, match="stopped"):
        last(Watching(stop=True), run)
    out = next((run / "attacks").glob("watching-*"))
    scene = Scene.of(run, out, Watching(stop=True).digest(Scene.of(run, out, "").recipe.digest))
    assert [event.done for event in Watching(upto=4).carry_out(scene) if isinstance(event, Step)] == [3, 4]
    total = torch.tensor([0.0], dtype=torch.float64)
    for event in Scene.of(run, out, "0").rounds(until=4):
        total += event.uploads.double().sum()
    assert scene.recall()[1]["total"].item() == total.item()


def test_damage_to_what_an_attack_keeps_is_refused(run):
    with pytest.raises(Problem):
        last(Watching(stop=True), run)
    kept = next((run / "attacks").glob("*/attack-2.safetensors"))
    kept.write_bytes(kept.read_bytes()[:-1] + b"\x01")
    with pytest.raises(Problem, match="is damaged"):
        last(Watching(stop=True), run)


def test_every_attack_is_a_command_whose_options_are_its_fields(run, monkeypatch):
    app = Typer()
    app.command("watching")(command.command(Watching))
    app.command("other")(lambda: None)
    result = CliRunner().invoke(app, ["watching", str(run), "--upto", "2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["options"]["upto"] == 2 and CliRunner().invoke(app, ["watching", str(run), "--upto", "2"]).stdout.count("deep draw") == 1
    assert isinstance(CliRunner().invoke(app, ["watching", str(run), "--upto", "0"]).exception, Problem)


def test_every_attack_of_the_table_says_what_it_is_and_what_its_options_mean():
    for name in attacks.ATTACKS:
        kind = attacks.kind(name)
        assert kind.name == name and kind.__doc__ and all(f.metadata["help"] for f in fields(kind)), name


@pytest.mark.parametrize("call, complaint", [
    (lambda run: attacks.kind("gann"), "unknown attack 'gann'"),
    (lambda run: last(Watching(), run / "nowhere"), "is not a run folder"),
    (lambda run: read(run / "result.json"), "damaged .*'attack'"),
])
def test_what_cannot_be_attacked_is_refused(run, call, complaint):
    with pytest.raises(Problem, match=complaint):
        call(run)


def test_a_png_holds_the_image_to_the_last_bit(tmp_path):
    image = torch.randint(0, 256, (3, 5, 7), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    content = pictures.png(image)
    from zlib import crc32, decompress

    at, parts = 8, {}
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        assert crc32(content[at + 4 : at + 8 + size]) == int.from_bytes(content[at + 8 + size : at + 12 + size], "big")
        parts[content[at + 4 : at + 8]], at = content[at + 8 : at + 8 + size], at + 12 + size
    lines = torch.frombuffer(bytearray(decompress(parts[b"IDAT"])), dtype=torch.uint8).view(5, 1 + 7 * 3)
    assert parts[b"IHDR"][:8] == (7).to_bytes(4, "big") + (5).to_bytes(4, "big") and bool((lines[:, 0] == 0).all())
    assert torch.equal(lines[:, 1:].reshape(5, 7, 3).permute(2, 0, 1), image)


def test_a_roc_curve_lies_where_its_rates_are():
    picture = pictures.roc("ROC", {"none": [(1e-9, 1e-2), (1.0, 1.0)]})
    assert f"M{pictures.LEFT:.1f} {pictures.TOP + pictures.SIDE / 2:.1f}L{pictures.LEFT + pictures.SIDE:.1f} {pictures.TOP:.1f}" in picture
