"""What was seen on the way: how good each global model was, and what the generator made of the private class."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ladp.attacks.generator import Generator, forge
from ladp.attacks.pictures import shown
from ladp.attacks.scene import Scene
from ladp.keys import Key
from ladp.training.local import normalise

LOOKS, EACH, BATCH = 10, 100, 500


@dataclass
class Trail:
    """Rounds with their test accuracy, and the private class's part of it; at about ten of them, a hundred images of that class as bytes."""

    private: int
    records: list[tuple[float, float, float]] = field(default_factory=list)
    looks: dict[int, Tensor] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Of the last global model that was tested."""
        return self.records[-1][1] if self.records else 0.0

    @property
    def news(self) -> str:
        return f"accuracy {self.accuracy:.3f}" if self.records else "waiting"

    @property
    def columns(self) -> dict[str, list[float]]:
        return {name: [record[place] for record in self.records] for place, name in enumerate(("round", "accuracy", "recall"))}

    @torch.no_grad()
    def test(self, number: int, model: nn.Module, scene: Scene) -> None:
        """On the test set: the experimenter looks, not the client."""
        labels, device, dtype = scene.work.test_labels, scene.work.device, scene.work.dtype
        right = torch.cat([model(normalise(x.to(device), dtype)).argmax(1).cpu() for x in scene.work.test_images.split(BATCH)]) == labels.cpu()
        self.records.append((number, right.double().mean().item(), right[labels.cpu() == self.private].double().mean().item()))

    def look(self, number: int, rounds: int, generator: Generator, key: Key) -> None:
        """Keep some images, always of the same latent vectors."""
        if not self.looks or number - max(self.looks) >= rounds / LOOKS:
            self.looks[number] = shown(forge(generator, self.private, EACH, key))

    def save(self) -> dict[str, Tensor]:
        return {"trail": torch.tensor(self.records, dtype=torch.float64).view(-1, 3)} | {f"look.{number}": images for number, images in self.looks.items()}

    def load(self, kept: Mapping[str, Tensor]) -> None:
        """Go on from what was saved."""
        self.records = [(int(number), accuracy, recall) for number, accuracy, recall in kept["trail"].tolist()]
        self.looks = {int(name.removeprefix("look.")): images.cpu() for name, images in kept.items() if name.startswith("look.")}
        self.looks = dict(sorted(self.looks.items()))
