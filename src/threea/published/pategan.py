"""`pategan-published`: a GAN whose student learns from noisy votes of teachers, with its paper's own accounting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import activated, apply, initial, key_of, members
from threea.adapt.ntk import NETS, load
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.certificate import Guarantee
from threea.errors import InputError, SettingError
from threea.framework import Recipe
from threea.progress import tell
from threea.published.adversaries import check_number, check_whole
from threea.published.exposed_rows import ExposedRows
from threea.published.pate_accounting import MomentsAccountant
from threea.table.row_vectors import RowVectors
from threea.table.schema import Schema

STEP, REASON = "votes", "PATE-GAN as published"
SPLITS = ("paper", "code")

ASSUMPTIONS = (
    "the cost of a vote is reckoned from the exact votes, and so is when to stop: the number of steps, and epsilon "
    "itself, are functions of the rows that nothing hides",
    "epsilon is looked at after each step, so the last one goes beyond it",
    "the number of rows is taken as public: it sets how many rows a teacher has",
    "a person's rows, where there may be several, are taken to be one: they may be with several teachers",
    "noise is drawn in floating point",
)
"""What the claim takes for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """Train teachers, a student and a generator in turn until the votes have cost epsilon.

    Args:
        teachers: k, each with as many rows.
        votes_noise: lambda; votes have Laplace noise of scale 1 / lambda.
        teacher_steps: Steps of the teachers in an iteration; n_T in the paper.
        student_steps: Steps of the student, each with its own votes; n_S.
        batch: Rows that are voted on in a step; n.
        latent: How many random numbers a row is made of.
        width: Of the generator's hidden layers; the student has half.
        learning_rate: Of all networks.
        most_iterations: Where training ends if epsilon does not end it.
        split: ``paper``, or ``code``: every teacher has the last part.
    """

    teachers: int
    votes_noise: float
    teacher_steps: int
    student_steps: int
    batch: int
    latent: int
    width: int
    learning_rate: float
    most_iterations: int
    split: str

    def __post_init__(self) -> None:
        whole = {"teachers": (1, 100_000), "teacher_steps": (1, 1000), "student_steps": (1, 1000)}
        whole |= {"batch": (1, 65_536), "latent": (1, 4096), "width": (2, 4096), "most_iterations": (1, 1_000_000)}
        check_whole(self, whole)
        check_number(self, {"votes_noise": (1e-6, 1e3), "learning_rate": (1e-6, 1.0)})
        if self.split not in SPLITS:
            raise SettingError(f"split ({self.split}) must be paper or code")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Reserve a budget for all votes; how many there are is known once it is used up."""
        return (Step(name=STEP, weight=1.0),)

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Read the rows and train.

        Cost:
            A `NonPrivate` event.

        Raises:
            InputError: There are fewer rows than teachers.
        """
        exposed, budget = ExposedRows.of(table, REASON), plan.budget
        vectors = RowVectors.of((*exposed.columns, *((exposed.target,) if exposed.target else ())))
        inputs, rng = vectors.encode(exposed.chunk).astype(np.float32), exposed.rng
        if len(inputs) < self.teachers:
            raise InputError(f"teachers ({self.teachers}) must be at most as many as there are rows; set fewer")
        accountant = MomentsAccountant(self.votes_noise, budget.delta)
        state = self._start(vectors.width, rng)
        run, parts = self._iteration(vectors), load("jax").numpy.asarray(self._parts(inputs, rng))
        done = 0
        while accountant.epsilon < budget.epsilon and done < self.most_iterations:
            state, real = run(state, parts)
            accountant.add(2.0 * np.asarray(real).ravel() - self.teachers)
            done += 1
            if done % max(self.most_iterations // 50, 1) == 0:
                tell(f"training, epsilon {accountant.epsilon:.3g}", done, self.most_iterations)
        generator = load("jax").tree.map(np.asarray, state["generator"])
        alone = np.zeros((1, generator[0][0].shape[1]), np.float32)
        layers = ((np.vstack([generator[0][0], alone]), generator[0][1]), *generator[1:])
        labels = LabelShares(None, np.ones((1, 1)), np.array([float(len(inputs))]), 0.0)
        return GeneratorModel(labels, vectors.columns, layers, self.latent)

    def _parts(self, inputs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return k disjoint parts of equal size, at random."""
        size = len(inputs) // self.teachers
        order = rng.permutation(len(inputs))[: size * self.teachers]
        parts = inputs[order].reshape(self.teachers, size, -1)
        return parts if self.split == "paper" else np.repeat(parts[-1:], self.teachers, axis=0)

    def _start(self, width: int, rng: np.random.Generator) -> dict[str, Any]:
        """Return the networks, their optimizers' states and a key."""
        players = {
            "teachers": ((np.zeros((self.teachers, width), np.float32), np.zeros(self.teachers, np.float32)),),
            "student": initial((width, max(self.width // 2, 1), 1), rng),
            "generator": initial((self.latent, self.width, self.width, width), rng),
        }
        moments = {f"{name} moments": _optimizer(self.learning_rate).init(own) for name, own in players.items()}
        return {**players, **moments, "key": key_of(rng)}

    def _iteration(self, vectors: RowVectors) -> Any:
        choices = tuple(tuple(row) for row in members(vectors.groups).tolist())
        numbers = (self.teacher_steps, self.student_steps, self.batch, self.latent)
        return _compiled(choices, *numbers, self.votes_noise, self.learning_rate)


def _optimizer(learning_rate: float) -> Any:
    return load("optax").adam(learning_rate, b1=0.5)


@lru_cache(maxsize=16)
def _compiled(
    choices: tuple[tuple[float, ...], ...],
    teacher_steps: int,
    student_steps: int,
    batch: int,
    latent: int,
    votes_noise: float,
    learning_rate: float,
) -> Any:
    """Return one iteration of Algorithm 1: teachers, student and generator; compiled, with the exact votes for real."""
    jax, optax = load("jax"), load("optax")
    xp, optimizer = jax.numpy, _optimizer(learning_rate)
    chosen = np.array(choices, np.float32).reshape(len(choices), -1)

    def made(generator: Any, key: Any, count: int) -> Any:
        return activated(apply(generator, jax.random.normal(key, (count, latent)), xp), chosen, xp)

    def taught(teachers: Any, real: Any, fake: Any) -> Any:
        ((weights, biases),) = teachers
        seen = xp.einsum("kmd,kd->km", real, weights) + biases[:, None]
        missed = xp.einsum("kmd,kd->km", fake, weights) + biases[:, None]
        return (jax.nn.softplus(-seen).mean(axis=1) + jax.nn.softplus(missed).mean(axis=1)).sum()

    def learned(student: Any, inputs: Any, said: Any) -> Any:
        return optax.sigmoid_binary_cross_entropy(apply(student, inputs, xp)[:, 0], said).mean()

    def fooled(generator: Any, student: Any, key: Any) -> Any:
        return jax.nn.softplus(-apply(student, made(generator, key, batch), xp)[:, 0]).mean()

    def moved(state: Any, name: str, gradient: Any) -> Any:
        updates, moments = optimizer.update(gradient, state[f"{name} moments"])
        return {**state, name: optax.apply_updates(state[name], updates), f"{name} moments": moments}

    def teach(state: Any, key: Any, parts: Any) -> Any:
        fake = made(state["generator"], key, parts.shape[0] * parts.shape[1]).reshape(parts.shape)
        return moved(state, "teachers", jax.grad(taught)(state["teachers"], parts, fake)), None

    def vote(state: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        inputs = made(state["generator"], first, batch)
        ((weights, biases),) = state["teachers"]
        real = (inputs @ weights.T + biases > 0).sum(axis=1)
        noise = jax.random.laplace(second, (2, batch)) / votes_noise
        said = (real + noise[0] > len(weights) - real + noise[1]).astype(xp.float32)
        return moved(state, "student", jax.grad(learned)(state["student"], inputs, said)), real

    def iteration(state: Any, parts: Any) -> Any:
        key, first, second, third = jax.random.split(state["key"], 4)
        state, _ = jax.lax.scan(
            lambda held, own: teach(held, own, parts), state, jax.random.split(first, teacher_steps)
        )
        state, votes = jax.lax.scan(vote, state, jax.random.split(second, student_steps))
        state = moved(state, "generator", jax.grad(fooled)(state["generator"], state["student"], third))
        return {**state, "key": key}, votes

    return jax.jit(iteration)


@dataclass(frozen=True, kw_only=True)
class PATEGANPublished(Recipe):
    """A generator against a student who learns from noisy votes of teachers, after the paper.

    1. Split the rows at random into k parts; each has a teacher, which tells its rows from generated ones.
    2. Until the moments accountant says epsilon: train the teachers; let them vote on generated rows, with Laplace
       noise of scale 1 / lambda on both counts; train the student on what they say; train the generator against the
       student.

    What was chosen here, because the paper leaves it open: teachers are logistic regressions, as in its authors' code;
    sizes, learning rate and lambda; orders of the moments up to 100; columns are vectors by the schema alone
    (`row_vectors`), the label is one of them; an end after `most_iterations`. With ``split=code`` all teachers see the
    same part of the rows, as in that code, and nothing is promised. What the claim misses is in the assumptions, and in
    docs/published-is-not-private.md.

    Args:
        teachers: k.
        votes_noise: lambda: more is less noise, and costs more.
        teacher_steps: Steps of the teachers in an iteration.
        student_steps: Steps of the student, each with its own votes.
        batch: Rows that are voted on in a step.
        latent: How many random numbers a row is made of.
        width: Of the generator's hidden layers; the student has half.
        learning_rate: Of all networks.
        most_iterations: Where training ends if epsilon does not end it.
        split: ``paper`` or ``code``.

    Example:
        >>> PATEGANPublished().guarantee.value, PATEGANPublished(split="code").guarantee.value
        ('claimed', 'none')

    Reference:
        Jordon, Yoon and van der Schaar 2019, PATE-GAN: Generating synthetic data with differential privacy guarantees.
    """

    name: ClassVar[str] = "pategan-published"
    summary: ClassVar[str] = "pategan as in its paper, without a proof"
    needs: ClassVar[Mapping[str, str]] = NETS
    teachers: int = 500
    votes_noise: float = 0.05
    teacher_steps: int = 1
    student_steps: int = 1
    batch: int = 64
    latent: int = 32
    width: int = 128
    learning_rate: float = 1e-3
    most_iterations: int = 2000
    split: str = "paper"

    @property
    def guarantee(self) -> Guarantee:
        """Claimed by the paper; nobody claims it of its code."""
        return Guarantee.CLAIMED if self.split == "paper" else Guarantee.NONE

    def training(self, size: int) -> float:
        """Return about how many multiplications training takes, given how many numbers a row is."""
        weights = self.width * (size + 2 * self.width)
        voting = self.batch * (self.teachers * size + weights)
        return 6.0 * self.most_iterations * (self.student_steps * voting + self.teacher_steps * self.teachers * weights)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the claim takes for granted."""
        every = "every teacher sees the last part of the rows, so one row can turn all votes"
        return ASSUMPTIONS if self.split == "paper" else (every, *ASSUMPTIONS)

    @property
    def approximate(self) -> Votes:
        """All steps."""
        return Votes(
            teachers=self.teachers,
            votes_noise=self.votes_noise,
            teacher_steps=self.teacher_steps,
            student_steps=self.student_steps,
            batch=self.batch,
            latent=self.latent,
            width=self.width,
            learning_rate=self.learning_rate,
            most_iterations=self.most_iterations,
            split=self.split,
        )
