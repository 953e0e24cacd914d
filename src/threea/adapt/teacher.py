"""Adapt: a privately trained classifier gives the synthetic rows their labels.

It is linear in the features' merged cells. What the tree already says of the task is where it starts from, and how its
loss curves: it is first trained on rows drawn from the tree, which costs nothing, and then corrected by a few noisy
gradients over the private rows. Each correction is a Newton step with the tree's own Hessian, by what all gradients
so far say together, and drawn back by the noise that is left on their mean. Where there are too few rows for a tree,
a number's weights are taken to rise or fall with it, unless the rows say otherwise; where there is a tree by class,
cells are finer than its own if these tell more of the classes. At last it is calibrated (`calibration`): told how sure
it may be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from threea.adapt.calibration import MOST_CLASSES, RAREST, calibrated
from threea.adapt.number_teacher import taught_numbers
from threea.adapt.prior import factored, prior_covariance, rounded
from threea.adapt.taught import Taught, Waves, all_classes, centred, softmax
from threea.adapt.waves import Newton, random_waves
from threea.anonymize.door import PrivateTable
from threea.anonymize.gradient import Gradient
from threea.anonymize.plan import Plan, Step
from threea.anonymize.wave_gradient import SCORE_BITS, WaveGradient, WaveLogits
from threea.approximate.denoise import proportions
from threea.approximate.finer_tree import with_informative_cells
from threea.approximate.tree_model import TreeModel
from threea.errors import SettingError
from threea.table.cells import Bins, Merged
from threea.table.schema import Origin, Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

STEP, WAVES, CALIBRATION = "teacher's gradient", "teacher's waves", "teacher's calibration"
# Settings, all of them chosen.
_MOST_ROWS, _MOST_NUMBERS = 20_000, 1 << 24
"""Rows drawn from the tree to start from, and cells of their matrix, at most: seconds, and 64 MB."""
_DAMPING, _POOLED_DAMPING, _LEAST_DAMPING = 2.0, 16.0, 5.0
"""How much the start is drawn to 0: in standard deviations of the noise, with pairs by class or none, and with pairs of
all classes together; and at least. Chosen, the second on PhysioNet."""
_OFF, _OFF_WITHOUT, _LOGIT_OFF = 0.18, 0.12, 0.85
"""About how far a weight is taken to be off at the start, at least, with pairs by class and without; and a row's logit,
which adds up over features, so each weight of few features may be off by more. Chosen on Pima, where with less a noisy
start was trusted too much, and, without pairs by class, on PhysioNet."""
_MOST_CELLS, _LEAST = 32, 0.003
"""About how many cells of a feature it looks at, and the least share of the rows in each, where there is a tree."""
_CALIBRATION = 0.08
"""Share of the teacher's budget for its calibration."""
_WAVE_STEPS, _PHASES, _WAVE_ROWS = 2, 300, 10_000
"""How many gradients of its waves it asks for, how many phases these have, and rows drawn for their Hessian. Chosen on
magic, nursery and letter."""
_CLEAR, _FEWEST = 4.0, 16
"""Features this many standard deviations clear of noise are looked at, and at least so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """Trains a classifier through the door and lets it label the model's rows.

    Args:
        alpha: Share of labels that stay the model's own: 1 keeps its density, 0 is all for the task.
        weight: Its share of the budget, relative to the approximation's 1.
        steps_taken: How many gradients it asks for.
        waves: Share of its budget for random waves over two or three features at a time.
        clip: Bound on a single row's residual; at 1 no row is clipped, less means less noise.
    """

    alpha: float = 0.0
    weight: float = 1.0
    steps_taken: int = 4
    waves: float = 0.0
    clip: float = 0.5

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for a few gradients and, of classes, a calibration; for nothing without a target or features."""
        if self.alpha == 1 or schema.target is None or not schema.features:
            return ()
        gradients = Step(name=STEP, weight=self.weight, count=self.steps_taken)
        # Whole numbers may yet be found to be classes.
        found = schema.origin is Origin.TYPES and not schema.number_target and schema[schema.target].whole
        if schema[schema.target].kind.numeric and not found:
            return (gradients,)
        return (
            replace(gradients, weight=(1 - _CALIBRATION - self.waves) * self.weight),
            *((Step(name=WAVES, weight=self.waves * self.weight, count=_WAVE_STEPS),) if self.waves else ()),
            Step(name=CALIBRATION, weight=_CALIBRATION * self.weight),
        )

    def adapt(self, model: TreeModel, table: PrivateTable, plan: Plan) -> TreeModel | Taught:
        """Train, and return the tree with a teacher at its side.

        Raises:
            SettingError: The model is no tree.
        """
        if not isinstance(model, TreeModel):
            raise SettingError(f"the teacher labels rows of a label tree, not of a {type(model).__name__}")
        if not self.steps(table.schema) or model.label is None or model.label.size < 2:
            return model
        if isinstance(model.label.cells, Bins):
            return taught_numbers(model, _informative(model), table, plan[STEP], self.steps_taken, self.alpha)
        # All classes that stand out from the noise, but at least two.
        fewest = min(3 * model.stddev, float(np.sort(model.sizes)[-2]))
        classes = tuple(int(code) for code in np.flatnonzero(model.sizes >= fewest))
        tree = model
        by_class = bool(model.edges) and model.by_class
        damping = _POOLED_DAMPING if model.edges and not by_class else _DAMPING
        if by_class:
            model = with_informative_cells(model, _MOST_CELLS, _LEAST, _CLEAR)
        assert model.label is not None
        learned = _informative(model)
        cells = tuple(model.features[index].merged for index in learned)
        width = sum(merged.size for merged in cells)
        sizes = model.sizes[list(classes)]
        class_weights = np.minimum(model.balanced[list(classes)] / np.maximum(sizes, 1e-9), 1.0)
        class_weights[sizes <= 0] = 1.0
        group, codes = model.draw_balanced(min(_MOST_ROWS, _MOST_NUMBERS // width), np.random.default_rng(0))
        rows = _OneHot.of(cells, group, [codes[index] for index in learned], classes, model.effective_rows)
        # Of more than two classes, each has a logit: then a row has a residual in two of them.
        clip = self.clip * (1.0 if len(classes) == 2 else math.sqrt(2))
        query = Gradient(model.label, classes, cells, np.zeros((len(classes), width)), tuple(class_weights), clip)
        stddev = table.stddev(query, plan[STEP])
        prior = prior_covariance(model, learned, float(class_weights.min()), tree)
        precision = np.asarray(np.linalg.inv(prior), np.float64)
        start = weights = rows.trained(max(damping * max(stddev, model.stddev), _LEAST_DAMPING), precision)
        hessian = rows.hessian(start, self.clip)
        off = max(_OFF if by_class else _OFF_WITHOUT, _LOGIT_OFF / math.sqrt(len(cells)))
        # What would calibrate too many or too rare classes pays for one more gradient.
        calibrates = len(classes) <= MOST_CLASSES and float(proportions(sizes).min()) >= RAREST
        charges = [plan[STEP]] * self.steps_taken + [plan[CALIBRATION]] * (not calibrates)
        told, precise = np.zeros_like(start), 0.0
        for charge in charges:
            answer = table.measure(replace(query, weights=all_classes(weights)), charge)
            # Wherever a gradient was taken, it points to the same optimum: all are averaged, seen from the start.
            optimum = np.array([h @ w for h, w in zip(hessian, weights - start, strict=True)]) - answer.value
            own = max(answer.stddev, 1e-9) ** -2
            told, precise = told + own * optimum, precise + own
            left = precise**-0.5
            steps = [_Correction.of(h, left / off, precision, by_class) for h in hessian]
            weights = start + np.array([step.taken(mean) for step, mean in zip(steps, told / precise, strict=True)])
        known, stretch = rows.stretched(weights, cells[0].size)
        waves = self._waves(model, learned, replace(query, weights=known), table, plan) if self.waves else None
        # It learned of rare classes more often than they occur: back to the private ratio.
        occur = model.ratio[list(classes)] / np.maximum(model.weights[list(classes)], 1e-300)
        known[:, : cells[0].size] += np.log(np.maximum(occur, 1e-12))[:, None]
        read = centred(model, learned)
        errors = all_classes(stretch * np.array([left * step.spread(read) for step in steps]))
        noise = {**model.noise, STEP: stddev} | ({} if calibrates else {CALIBRATION: answer.stddev})
        scaling = (
            calibrated(known, model, classes, learned, table, plan[CALIBRATION], waves=waves) if calibrates else None
        )
        if scaling:
            known, errors = scaling.weights(known, cells[0].size), scaling.errors(errors)
            waves = waves and waves.scaled(scaling.matrix)
            noise[CALIBRATION] = scaling.stddev
        return Taught(model, classes, learned, known, self.alpha, errors, noise, waves)

    def _waves(
        self, model: TreeModel, learned: tuple[int, ...], query: Gradient, table: PrivateTable, plan: Plan
    ) -> Waves:
        """Ask in random waves what the weights of a query cannot say."""
        waves = random_waves(model, learned, _PHASES, len(query.classes))

        def asked(waves: Waves) -> WaveGradient:
            logits = WaveLogits(waves.space, query.weights, waves.frequencies, waves.amplitudes)
            return WaveGradient(query.label, query.classes, logits, query.class_weights, query.clip)

        group, codes = model.draw_balanced(_WAVE_ROWS, np.random.default_rng(3))
        coarse = [model.features[index].merged.merge(codes[index]) for index in learned]
        logits = asked(waves).logits.scores(coarse) / 2.0**SCORE_BITS
        newton = Newton.of(waves.heights(coarse), logits, model.effective_rows / len(group))
        told = np.zeros((len(newton.values), waves.amplitudes.shape[1]))
        for step in range(1, _WAVE_STEPS + 1):
            answer = table.measure(asked(waves), plan[WAVES])
            # As with gradients of weights: all are averaged, seen from the start.
            told = told + newton.times(waves.amplitudes[-len(told) :]) - answer.value
            amplitudes = newton.solved(told / step, max(answer.stddev, 1e-9) / math.sqrt(step))
            waves = replace(waves, amplitudes=all_classes(amplitudes))
        return waves


@dataclass(frozen=True, slots=True)
class _Correction:
    """What weights are off by, told from a gradient that is the Hessian times that, and noise.

    The best guess is a ridge regression, ``(h h + noise² precision)⁻¹ h``, for weights that are off by as much in any
    direction. A tree by class knows more: the more rows say of a weight, the less it is off at the start. Then a damped
    Newton step serves better, ``(h + damping precision)⁻¹``, which trusts the start more where the Hessian is larger,
    and is the same at a usual one.

    Args:
        factor: Of what is inverted.
        before: What the gradient is multiplied by before.
    """

    factor: Any
    before: Floats

    @classmethod
    def of(cls, hessian: Floats, noise: float, precision: Floats, by_class: bool) -> _Correction:
        """Return how to correct weights.

        Args:
            hessian: How the loss curves.
            noise: Standard deviation of a gradient's, over that of a weight.
            precision: What weights have to do with one another.
            by_class: Whether pairs of features were counted by class.
        """
        usual = max(float(np.trace(hessian)) / len(hessian), 1e-9)
        if by_class:
            return cls(factored(hessian, (noise**2 / usual + 1e-6) * precision), np.eye(len(hessian)))
        # A product with its own transpose has no eigenvalue below 0, however sums in single precision were rounded.
        square = hessian.T @ hessian
        floor = rounded(hessian) ** 2 + np.finfo(float).eps * len(hessian) * float(np.trace(square))
        return cls(cho_factor(square + noise**2 * precision + floor * np.eye(len(hessian))), hessian.T)

    def taken(self, gradient: Floats) -> Floats:
        """Return how far to move."""
        return np.asarray(cho_solve(self.factor, self.before @ gradient))

    def spread(self, read: Floats) -> Floats:
        """Return the standard deviation of weights read so, one a row of `read`, where the gradient's is 1."""
        return np.asarray(np.linalg.norm(self.before.T @ cho_solve(self.factor, read.T), axis=0))


def _informative(model: TreeModel) -> tuple[int, ...]:
    """Return the features that differ between the classes by more than noise: others would only add to it."""
    statistic = np.array([feature.informative(model.sizes) for feature in model.features])
    lowest = min(_CLEAR, float(np.sort(statistic)[-min(len(statistic), _FEWEST)]))
    return tuple(int(index) for index in np.flatnonzero(statistic >= lowest))


@dataclass(frozen=True, slots=True)
class _OneHot:
    """Rows drawn from a model, as indicators of their merged cells.

    Args:
        cells: Shape (rows, all cells).
        actual: Whether a row is of a class that has a logit, shape (logits, rows); of two classes, the second.
        scale: How many private rows a row stands for.
    """

    cells: NDArray[np.float32]
    actual: Floats
    scale: float

    @classmethod
    def of(
        cls, cells: Sequence[Merged], group: Whole, codes: Sequence[Whole], classes: tuple[int, ...], stand_for: float
    ) -> _OneHot:
        known = np.isin(group, classes)
        pairs = zip(cells, codes, strict=True)
        blocks = [np.eye(merged.size, dtype=np.float32)[merged.merge(code[known])] for merged, code in pairs]
        modelled = classes if len(classes) > 2 else classes[1:]
        actual = np.array([group[known] == code for code in modelled], np.float64)
        return cls(np.hstack(blocks), actual, stand_for / max(len(group), 1))

    def probabilities(self, weights: Floats) -> Floats:
        """Return the probabilities of the classes that have a logit."""
        logits = all_classes(np.asarray((self.cells @ weights.T.astype(np.float32)).T, np.float64))
        return softmax(logits)[-len(weights) :]

    def hessian(self, weights: Floats, clip: float) -> list[Floats]:
        """Return the loss's second derivatives, class by class; of rows that are clipped there are none.

        Of many classes, what they have to do with one another is left out.
        """
        p = self.probabilities(weights)
        unclipped = p * (1 - p <= clip) + (1 - p) * (p <= clip)
        return [self._gram(second) for second in p * (1 - p) * unclipped]

    def _gram(self, second: Floats) -> Floats:
        gram = self.cells.T @ (self.cells * (self.scale * second)[:, None].astype(np.float32))
        return np.asarray(gram, np.float64)

    def trained(self, damping: float, precision: Floats) -> Floats:
        """Return the weights that fit these rows best, damped towards 0 in so far as `precision` holds them there."""
        weights = np.zeros((len(self.actual), self.cells.shape[1]))
        for _ in range(8):
            p = self.probabilities(weights)
            residual = self.scale * (p - self.actual)
            gradient = np.asarray(residual.astype(np.float32) @ self.cells, np.float64) + damping * weights @ precision
            # Of many classes, what they have to do with one another is left out: that overstates it a little.
            steep = p * (1 - p) if len(weights) == 1 else p
            damped = [factored(self._gram(second), damping * precision) for second in steep]
            move = np.array([cho_solve(*pair) for pair in zip(damped, gradient, strict=True)])
            weights = weights - move
            if np.abs(move).max() < 0.01:
                break
        return weights

    def stretched(self, weights: Floats, first: int) -> tuple[Floats, float]:
        """Stretch and shift weights until the classes are as frequent, and as far apart, as the counts by class say.

        Clipping makes a teacher too sure of itself. How far apart its classes should be, on average, follows from the
        features' counts by class, which these rows share with the private ones.

        Args:
            weights: One row per class that has a logit.
            first: How many cells the first feature has; its weights take the shift.

        Returns:
            One row of weights per class, and the stretch.
        """
        scores = all_classes(np.asarray((self.cells @ weights.T.astype(np.float32)).T, np.float64))
        actual = self.actual if len(self.actual) > 1 else np.vstack([1 - self.actual, self.actual])
        share = np.maximum(actual.mean(axis=1, keepdims=True), 1e-9)
        apart = float((actual * scores).sum(axis=0).mean())

        def shifted(stretch: float) -> tuple[Floats, float]:
            shift = np.zeros_like(share)
            for _ in range(10):
                p = softmax(stretch * scores + shift)
                shift += np.log(share / np.maximum(p.mean(axis=1, keepdims=True), 1e-300))
            return shift, float((softmax(stretch * scores + shift) * scores).sum(axis=0).mean())

        low, high = 0.25, 4.0
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (middle, high) if shifted(middle)[1] < apart else (low, middle)
        stretched = all_classes(weights) * low
        stretched[:, :first] += shifted(low)[0]
        return stretched, low
