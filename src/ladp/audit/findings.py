"""What an audit found, beside what is certified and claimed; as JSON and as a picture."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ladp import experiment, folder
from ladp.audit.laws import Broken
from ladp.audit.picture import histogram
from ladp.privacy.audit import Refuted
from ladp.privacy.mechanism import Guarantee

FOUND, PICTURE, ELSEWHERE = "audit.json", "scores.svg", "choose another --out"


@dataclass(frozen=True, eq=False)
class Findings:
    """What is refuted of a unit and a view; what is certified and claimed; the laws; noise by layer over what was charged; how alike that of two releases is at
    most, and where chance ends."""

    refuted: Refuted
    unit: str
    view: str
    certified: Guarantee
    claimed: Guarantee | None
    broken: list[Broken]
    noise: dict[str, float]
    alike: tuple[float, float]
    coins: Tensor
    scores: Tensor
    facts: dict[str, Any]

    @property
    def failed(self) -> list[str]:
        """What must not be: more refuted than is certified, or a law broken."""
        over = f"ε is at least {self.refuted.epsilon:.4g} with confidence {self.refuted.confidence:g}, and {self.certified.epsilon:.4g} is certified"
        return [over] * (self.refuted.epsilon > self.certified.epsilon) + [f"{one.law}: {one.says}" for one in self.broken]


def tell(found: Findings) -> dict[str, Any]:
    """The findings as JSON."""
    return {
        "audited": {**asdict(found.refuted), "unit": found.unit, "view": found.view},
        "certified": experiment.guarantee(found.certified),
        "claimed": experiment.guarantee(found.claimed),
        "failed": found.failed,
        "noise": found.noise,
        "alike": {"found": found.alike[0], "limit": found.alike[1]},
        **found.facts,
        "coins": found.coins.tolist(),
        "scores": found.scores.tolist(),
    }


def write(found: Findings, out: Path) -> None:
    """`audit.json` and the histogram of the scores, in a folder."""
    with folder.writing(out, ELSEWHERE):
        out.mkdir(parents=True, exist_ok=True)
    folder.put(out / PICTURE, draw(found).encode(), ELSEWHERE)
    folder.put_json(out / FOUND, tell(found))


def draw(found: Findings) -> str:
    """The scores of the coins that fell 0 and of those that fell 1."""
    scores, coins = found.scores.flatten(), found.coins.flatten().bool()
    names = ("canary out", "canary in") if found.unit == "record" else ("coin 0", "coin 1")
    bound = f"ε ≥ {found.refuted.epsilon:.4g} at δ = {found.refuted.delta:g}, confidence {found.refuted.confidence:g}"
    return histogram(f"{found.facts['method']}: unit {found.unit}, {found.view} view; {bound}", names, [scores[~coins].tolist(), scores[coins].tolist()])
