"""What an inversion comes to: how like its images are to the records, and how like other images are that need no upload at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ladp.attacks.attack import Findings
from ladp.attacks.labels import apportion, tally
from ladp.attacks.pictures import sheet, shown
from ladp.attacks.resemblance import match, nearest, psnr, ssim
from ladp.attacks.scene import Scene
from ladp.attacks.sent import Sent

SHOWN = 16  # images a row


@dataclass(frozen=True, eq=False)
class Evidence:
    """Records, what was reconstructed of them, and two controls: the mean of all other records of the class, and one of those. `recognised`: whether, of all
    training records, a reconstruction is closest to its own."""

    true: Tensor
    found: Tensor
    mean: Tensor
    other: Tensor
    recognised: Tensor

    @staticmethod
    def of(scene: Scene, sent: Sent, images: Tensor) -> "Evidence":
        """Of one upload."""
        records = torch.from_numpy(sent.records)
        true = scene.take(records)[0]
        found = match(images, true)
        closest = nearest(found, len(scene.work.labels), lambda part: scene.take(part)[0])
        return Evidence(true, found, *_controls(scene, records), closest == records)

    @staticmethod
    def join(parts: "Sequence[Evidence]") -> "Evidence":
        """All records of all uploads."""
        return Evidence(*(torch.cat([getattr(part, name) for part in parts]) for name in Evidence.__dataclass_fields__))

    def scores(self) -> dict[str, Any]:
        """Means over the records."""
        like = lambda images: {"psnr": float(psnr(images, self.true).mean()), "ssim": float(ssim(images, self.true).mean())}  # noqa: E731
        own = {"recognised": float(self.recognised.double().mean()), "worst_psnr": float(psnr(self.found, self.true).min())}
        return {**like(self.found), **own, "control": {"class_mean": like(self.mean), "another_of_the_class": like(self.other)}}


def _controls(scene: Scene, records: Tensor) -> tuple[Tensor, Tensor]:
    """For each record the mean of the others of its class, and one of them; all other classes where there is no other."""
    means, others, random = [], [], scene.key.at("control").numpy()
    for label in scene.work.labels[records].tolist():
        same = (scene.work.labels == label).nonzero().flatten()
        same = same[~torch.isin(same, records)]
        same = same if len(same) else torch.tensor([place for place in range(len(scene.work.labels)) if place not in records.tolist()])
        images = scene.take(same)[0]
        means.append(images.mean(0)), others.append(images[int(random.integers(len(same)))])
    return torch.stack(means), torch.stack(others)


def conclude(scene: Scene, sent: Sequence[Sent], counted: Sequence[Tensor | None], found: Sequence[Tensor], notes: Sequence[str]) -> Findings:
    """Scores and the picture."""
    evidence = Evidence.join([Evidence.of(scene, one, images) for one, images in zip(sent, found)])
    lengths = {"upload_length": fmean(float(one.update.norm()) for one in sent), "noise_length": fmean(one.noise for one in sent)}
    scores = {**evidence.scores(), "labels": label_scores(scene, sent, counted), **lengths, "records": len(evidence.true)}
    rows = {"records": evidence.true, "reconstructed": evidence.found, "mean of class": evidence.mean, "another of it": evidence.other}
    picture = sheet(f"Inversion of round {sent[0].seen.round}, {scene.recipe.method.name}", {name: shown(images[:SHOWN]) for name, images in rows.items()}, ("reconstructed",),
                    f"PSNR {scores['psnr']:.1f} dB; the mean of the class has {scores['control']['class_mean']['psnr']:.1f} dB")  # fmt: skip
    return Findings(scores, {"reconstructions": picture}, tuple(notes))


def label_scores(scene: Scene, sent: Sequence[Sent], counted: Sequence[Tensor | None]) -> dict[str, Any] | None:
    """How often the counts of all classes are exactly right, over the uploads of the cohort; the share of labels that are; and that share for whoever says that all
    classes are alike and knows no upload."""
    if any(counts is None for counts in counted):
        return None
    true = [tally(scene.work.labels[torch.from_numpy(one.records)], len(scene.dataset.classes)) for one in sent]
    alike = [apportion(torch.ones(len(a), dtype=torch.float64), int(a.sum())) for a in true]
    share = lambda said: sum(int(torch.minimum(a, b).sum()) for a, b in zip(true, said)) / sum(int(a.sum()) for a in true)  # noqa: E731
    exact = fmean(float(torch.equal(a, b)) for a, b in zip(true, counted))
    return {"uploads": len(sent), "exact": exact, "right": share(counted), "guessing": share(alike)}
