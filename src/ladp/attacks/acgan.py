"""The game between a generator and a discriminator that begins each round as the global model (Hitaj et al. 2017; Odena et al. 2017).

    p_real = Z / (1 + Z), Z = sum_j exp(logit_j)      (energy; no weights beside the global model's)
    L_D = CE(D(x), y) - log p_real(x) - log(1 - p_real(G(z, c)))      x, y: the client's own records
    L_G = CE(T(G(z, c)), c) - log p_real(G(z, c))                     c: any class, the private one with them

D learns and is thrown away. The teacher T is the global model as it came, which still knows the private class, or D, which forgets it over the client's own records.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam

from ladp.attacks.generator import Generator, noise
from ladp.errors import Problem
from ladp.keys import Key


@dataclass(frozen=True)
class Rules:
    """How the game is played in a round."""

    steps: int
    d_steps: int
    batch: int
    latent: int
    lr_d: float
    lr_g: float
    betas: tuple[float, float]
    blur: float
    teacher: str


class Critic:
    """A model that says what an image shows and whether it is real: by the energy of its logits, or by a head of one unit on what its last layer is given."""

    def __init__(self, model: nn.Module, head: nn.Linear | None):
        self.model, self.head, self.given = model, head, None
        if head is not None:
            last(model).register_forward_pre_hook(self._keep)

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model(images)
        return logits, logits.logsumexp(1) if self.head is None else self.head(self.given).squeeze(1)

    def _keep(self, layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        self.given = given[0]

    def parameters(self) -> list[Tensor]:
        return [*(p for p in self.model.parameters() if p.requires_grad), *(self.head.parameters() if self.head is not None else ())]


def last(model: nn.Module) -> nn.Linear:
    """The layer that makes the logits."""
    found = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    if not found:
        raise Problem("realness 'head' of attack 'gan' needs a model that ends in a linear layer: take realness 'energy'")
    return found[-1]


class Game:
    """A generator that lasts, with its optimiser, and what one client has to teach it with."""

    def __init__(self, generator: Generator, head: nn.Linear | None, rules: Rules, own: tuple[Tensor, Tensor], fakes: Tensor, classes: int):
        self.generator, self.head, self.rules, self.fakes, self.classes = generator, head, rules, fakes, classes
        self.images, self.labels = own
        self.optimiser = Adam(generator.parameters(), rules.lr_g, rules.betas)

    def play(self, model: nn.Module, key: Key) -> None:
        """One round: D begins as the global model and is thrown away in the end."""
        teacher = deepcopy(model).requires_grad_(False) if self.rules.teacher == "global" else None
        random, critic = key.generator(), Critic(model, self.head)
        optimiser = Adam(critic.parameters(), self.rules.lr_d, self.rules.betas)
        for _ in range(self.rules.steps):
            for _ in range(self.rules.d_steps):
                descend(optimiser, self.criticism(critic, random))
            descend(self.optimiser, self.forgery(critic, teacher, random))

    def criticism(self, critic: Critic, random: torch.Generator) -> Tensor:
        """L_D on own records and on fakes of the classes that fakes are drawn from."""
        picked = torch.randint(len(self.labels), (self.rules.batch,), generator=random).to(self.labels.device)
        with torch.no_grad():
            fake, _ = self.imagine(self.fakes, random)
        logits, real = critic(self.blurred(self.images[picked], random))
        return F.cross_entropy(logits, self.labels[picked]) + F.softplus(-real).mean() + F.softplus(critic(fake)[1]).mean()

    def forgery(self, critic: Critic, teacher: nn.Module | None, random: torch.Generator) -> Tensor:
        """L_G on fakes of all classes."""
        fake, labels = self.imagine(torch.arange(self.classes), random)
        logits, real = critic(fake)
        return F.cross_entropy(logits if teacher is None else teacher(fake), labels) + F.softplus(-real).mean()

    def imagine(self, classes: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch of fakes of classes drawn from these, as the critic sees them, and their labels."""
        labels = classes[torch.randint(len(classes), (self.rules.batch,), generator=random)].to(self.labels.device)
        fake = self.generator(noise(random, len(labels), self.rules.latent, self.images), labels)
        return self.blurred(fake, random), labels

    def blurred(self, images: Tensor, random: torch.Generator) -> Tensor:
        """Noise on all that the critic sees, real or not: what it likes must then last in a neighbourhood."""
        if not self.rules.blur:
            return images
        return images + self.rules.blur * torch.randn(images.shape, generator=random).to(images.device, images.dtype)

    def save(self) -> dict[str, Tensor]:
        """All that lasts from round to round."""
        kept = {f"generator.{name}": tensor for name, tensor in self.generator.state_dict().items()}
        if self.head is not None:
            kept |= {f"head.{name}": tensor for name, tensor in self.head.state_dict().items()}
        moments = [self.optimiser.state.get(p, {}) for p in self.generator.parameters()]
        return kept | {f"adam.{number}.{name}": tensor for number, state in enumerate(moments) for name, tensor in state.items()}

    def load(self, kept: Mapping[str, Tensor]) -> None:
        """Go on from what was saved."""
        self.generator.load_state_dict(under(kept, "generator."))
        if self.head is not None:
            self.head.load_state_dict(under(kept, "head."))
        for number, parameter in enumerate(self.generator.parameters()):
            state = under(kept, f"adam.{number}.")
            if state:
                self.optimiser.state[parameter] = state | {"step": state["step"].cpu()}


def under(kept: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(start): tensor for name, tensor in kept.items() if name.startswith(start)}


def descend(optimiser: Adam, loss: Tensor) -> None:
    """One step of one player; for the other's weights no gradient is computed."""
    parameters = optimiser.param_groups[0]["params"]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
        parameter.grad = gradient
    optimiser.step()
