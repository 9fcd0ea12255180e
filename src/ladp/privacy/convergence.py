"""The paper's convergence theorem as arithmetic, with its conditions checked instead of assumed.

E[F(w_g^t)] - F* <= rate^t (F(w_g^0) - F*) + (psi + 2 phi)/2 (1 + rate + ... + rate^(t-1)) (Theorem `Thm:conv`). It asks for
mu > L, and no loss that is not constant has that: docs/theory.md has the proof, in either reading of the paper's assumption.
"""

from dataclasses import dataclass
from math import expm1, inf, log, sqrt

from scipy.special import gammainccinv

from ladp.errors import Problem


@dataclass(frozen=True)
class Condition:
    """One thing that the theorem needs, with its numbers, and whether they satisfy it."""

    name: str
    numbers: str
    holds: bool


@dataclass(frozen=True)
class Convergence:
    """The constants of the theorem: smoothness L, Polyak-Lojasiewicz mu, clip G_c, layers J, noise bound N_c, learning rate eta."""

    smoothness: float
    mu: float
    clip: float
    layers: int
    noise: float
    lr: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < inf and not (name == "noise" and value == 0):
                raise Problem(f"{name} must be positive and finite, got {value}")

    @property
    def psi(self) -> float:
        """psi = 2 J N_c - eta G_c."""
        return 2 * self.layers * self.noise - self.lr * self.clip

    @property
    def phi(self) -> float:
        """phi = L eta^2 G_c^2 / 2 + 2 L J^2 N_c^2."""
        return self.smoothness * ((self.lr * self.clip) ** 2 / 2 + 2 * (self.layers * self.noise) ** 2)

    @property
    def rate(self) -> float:
        """(L + psi mu L) / mu, the factor by which one round shrinks the gap."""
        return self.smoothness / self.mu + self.psi * self.smoothness

    @property
    def interval(self) -> tuple[float, float]:
        """The open interval that eta must lie in; it is empty, its ends reversed, unless mu > L."""
        upper = 2 * self.layers * self.noise / self.clip
        return upper - (1 / self.smoothness - 1 / self.mu) / self.clip, upper

    @property
    def smoothest(self) -> float:
        """The L below which eta could be allowed if mu were unlimited: 1/psi, since rate < 1 means psi < 1/L - 1/mu."""
        return 1 / self.psi if self.psi > 0 else inf

    def conditions(self) -> tuple[Condition, ...]:
        """What the theorem asks, one by one, in its own symbols."""
        lower, upper = self.interval
        return (
            Condition("mu > L", f"mu = {self.mu:g}, L = {self.smoothness:g}", self.mu > self.smoothness),
            Condition("eta < 2 J N_c / G_c", f"eta = {self.lr:g}, upper end {upper:g}", self.lr < upper),
            Condition("eta > 2 J N_c / G_c - (mu - L) / (L G_c mu)", f"eta = {self.lr:g}, lower end {lower:g}", self.lr > lower),
            Condition("0 < (L + psi mu L) / mu < 1", f"rate = {self.rate:g}, psi = {self.psi:g}", 0 < self.rate < 1),
        )

    @property
    def holds(self) -> bool:
        """Whether every condition does."""
        return all(condition.holds for condition in self.conditions())

    @property
    def refusal(self) -> str:
        """Why there is no bound; empty when there is one."""
        lower, upper = self.interval
        if self.mu <= self.smoothness:
            return (
                f"the condition on eta cannot hold here: mu = {self.mu:g} does not exceed L = {self.smoothness:g}, so no eta lies above "
                f"{lower:g} and below {upper:g}; a loss that is not constant never has mu > L"
            )
        return "" if self.holds else f"the condition on eta does not hold: it must lie between {max(lower, 0):g} and {upper:g}, got {self.lr:g}"

    def bound(self, rounds: int, gap: float) -> float:
        """The theorem's bound on E[F(w_g^t)] - F* after `rounds`, from the gap F(w_g^0) - F* before the first; a Problem if it has none."""
        if rounds < 0 or not 0 <= gap < inf:
            raise Problem(f"rounds and gap must not be negative, got {rounds} and {gap}")
        if self.refusal:
            raise Problem(self.refusal)
        shrunk = self.rate**rounds
        return shrunk * gap + (self.psi / 2 + self.phi) * (1 - shrunk) / (1 - self.rate)


def noise_bound(sigma: float, size: int, probability: float, draws: int = 1) -> float:
    """The N_c that the norms of `draws` independent N(0, sigma^2 I_size) all respect with `probability`.

    sigma times the chi quantile. Gaussian noise has no bound, so the paper's Bounded Noise assumption never holds with certainty.
    """
    if not 0 < probability < 1:
        raise Problem(f"probability must lie strictly between 0 and 1, got {probability}: no bound on Gaussian noise is certain")
    if not 0 <= sigma < inf or size < 1 or draws < 1:
        raise Problem(f"sigma must not be negative, size and draws must be at least 1, got {sigma}, {size} and {draws}")
    tail = -expm1(log(probability) / draws)
    return sigma * sqrt(2 * float(gammainccinv(size / 2, tail)))
