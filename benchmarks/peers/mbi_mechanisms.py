"""MST and AIM on the graphical models of mbi.

The package on the index ships the models and their estimation, not the mechanisms. The steps here follow the papers
(McKenna, Miklau and Sheldon, "Winning the NIST Contest", 2021; McKenna, Mullins, Sheldon and Miklau, "AIM", 2022), and
were compared line by line with their author's own scripts: `mechanisms/mst.py`, `mechanisms/aim.py` and
`mechanisms/mechanism.py` of the repositories ryan112358/mbi and ryan112358/private-pgm, from which SmartNoise
(`synth/snsynth/mst/mst.py`, `aim/aim.py`) and dpmm (`src/dpmm/models/aim.py`) derive theirs. Equal to these:

- MST: a third of rho each for columns, choice and pairs; values whose noisy count is under three standard deviations
  merged, and drawn evenly when they are split again; edges by the exponential mechanism with sensitivity 1 on the L1
  error of independence; 2,500 steps of mirror descent before the choice, 10,000 at the end.
- AIM: all pairs of at most 10,000 cells and their columns as candidates; 16 rounds a column, nine tenths of each for
  measuring; scores weighed by how much of the workload a candidate touches, less the noise to expect; sigma halved and
  epsilon doubled once a measurement changes the model by less than noise would; models up to 80 MB, by the share of
  rho spent; 1,000 steps each time, from the last model on. No merging of values, as published. `aim-small` is the same
  with models up to 8 MB, the default of our `aim`, for where the other does not end.
- Rows by randomized rounding, mbi's own default.

Departures, none to the peer's harm: as many rows as there are private ones (the scripts take the noisy number); in MST
the number of rows is estimated from every measured column, merged or not, as private-pgm did (mbi leaves merged ones
out, and is left with 1 row if no other column is there); float64, which mbi asks for. Noise is NumPy's, which serves
to compare accuracy and is no secure release.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import exchange
import numpy as np

MAX_MODEL_MB, SMALL_MODEL_MB, MAX_CELLS, ROUNDS_PER_COLUMN, AIM_STEPS = 80, 8, 10_000, 16, 1_000
MST_CHOICE_STEPS, MST_STEPS = 2_500, 10_000


def fit(codes: Any, job: dict[str, Any]) -> Callable[[int], Any]:
    """Fit the mechanism that the job names."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    from mbi import Dataset, Domain

    domain = Domain(tuple(job["domain"]), tuple(job["domain"].values()))
    data = Dataset({name: codes[name].to_numpy() for name in job["domain"]}, domain)
    rng = np.random.default_rng(job["seed"])
    np.random.seed(job["seed"])  # mbi draws its rows from it
    rho = zero_concentrated(job["epsilon"], job["delta"])
    limits = {"aim": MAX_MODEL_MB, "aim-small": SMALL_MODEL_MB}
    if job["mechanism"] == "mst":
        return mst(data, rho, rng)
    return aim(data, rho, rng, limits[job["mechanism"]])


def zero_concentrated(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zCDP is (epsilon, delta)-DP (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    from scipy.optimize import minimize_scalar

    def spent(rho: float) -> float:
        def log_delta(log_alpha: float) -> float:
            alpha = 1 + math.exp(log_alpha)
            return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)

        return float(minimize_scalar(log_delta, bounds=(-5, 12), method="bounded").fun)

    low, high = 0.0, epsilon + 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= math.log(delta) else (low, middle)
    return low


def measure(data: Any, cliques: Any, sigma: float, rng: Any) -> list[Any]:
    """Answer marginals with Gaussian noise."""
    from mbi import LinearMeasurement

    found = []
    for clique in cliques:
        exact = counts(data, clique)
        found.append(LinearMeasurement(exact + rng.normal(0, sigma, exact.size), tuple(clique), sigma))
    return found


def estimate(domain: Any, measurements: list[Any], steps: int, total: float | None = None, warm: Any = None) -> Any:
    """Fit a graphical model to noisy marginals; the number of rows is estimated from them if it is not given."""
    import jax

    # Every round has cliques of its own; what was compiled for the last one is not used again, and fills the memory.
    jax.clear_caches()
    from mbi.estimation import MirrorDescent

    return MirrorDescent().estimate(domain, measurements, known_total=total, iters=steps, warm_start=warm)


def counts(model: Any, clique: Any) -> Any:
    """Return a marginal, of rows or of a model."""
    return np.asarray(model.project(clique).datavector())


def choose(scores: Any, epsilon: float, sensitivity: float, rng: Any) -> int:
    """Choose by the exponential mechanism."""
    return int(np.argmax(epsilon * np.asarray(scores) / (2 * sensitivity) + rng.gumbel(size=len(scores))))


def mst(data: Any, rho: float, rng: Any) -> Callable[[int], Any]:
    """Measure columns, merge rare values, choose a spanning tree of pairs, measure these: a third of rho each."""
    from mbi.estimation import minimum_variance_unbiased_total as number_of_rows

    columns = list(data.domain.attributes)
    sigma = math.sqrt(3 * len(columns) / (2 * rho))
    whole = measure(data, [(name,) for name in columns], sigma, rng)
    merged = {}
    for one in whole:
        common = np.asarray(one.noisy_measurement) >= 3 * sigma
        if not common.all():
            merged[one.clique[0]] = np.where(common, np.cumsum(common) - 1, common.sum())
    first = [one.compress(merged, data.domain) for one in whole]
    small = data.compress(merged)
    before = estimate(small.domain, first, MST_CHOICE_STEPS, total=number_of_rows(whole))
    pairs = tree(small, before, rho / 3, rng)
    second = measure(small, pairs, math.sqrt(3 * len(pairs) / (2 * rho)), rng) if pairs else []
    model = estimate(small.domain, first + second, MST_STEPS, total=number_of_rows(whole + second))
    return lambda rows: model.synthetic_data(rows).decompress(merged).to_dict()


def tree(data: Any, model: Any, rho: float, rng: Any) -> list[Any]:
    """Choose the edges of a spanning tree, one after the other, by how badly independence fits them."""
    columns = list(data.domain.attributes)
    group = {name: name for name in columns}
    # Nothing but single columns is measured yet, so the model's columns are independent.
    shares = {name: counts(model, (name,)) / float(model.total) for name in columns}
    weights = {
        (a, b): np.abs(counts(data, (a, b)) - float(model.total) * np.outer(shares[a], shares[b]).ravel()).sum()
        for a, b in itertools.combinations(columns, 2)
    }
    chosen: list[Any] = []
    while len(chosen) < len(columns) - 1:
        open_pairs = [pair for pair in weights if group[pair[0]] != group[pair[1]]]
        epsilon = math.sqrt(8 * rho / (len(columns) - 1))
        edge = open_pairs[choose([weights[pair] for pair in open_pairs], epsilon, 1.0, rng)]
        chosen.append(edge)
        old, new = group[edge[0]], group[edge[1]]
        group = {name: new if label == old else label for name, label in group.items()}
    return chosen


def aim(data: Any, rho: float, rng: Any, most_mb: float) -> Callable[[int], Any]:
    """Measure the pair that the model fits worst, round after round; more exactly once noise hides what is left."""
    columns = list(data.domain.attributes)
    pairs = [pair for pair in itertools.combinations(columns, 2) if data.domain.size(pair) <= MAX_CELLS]
    candidates = {(name,): 0 for name in columns} | dict.fromkeys(pairs, 0)
    for clique in candidates:
        candidates[clique] = sum(len(set(clique) & set(pair)) for pair in pairs)
    rounds = ROUNDS_PER_COLUMN * len(columns)
    sigma, epsilon = math.sqrt(rounds / (1.8 * rho)), math.sqrt(0.8 * rho / rounds)
    exact = {clique: counts(data, clique) for clique in candidates}
    measured = measure(data, [(name,) for name in columns], sigma, rng)
    spent = len(columns) / (2 * sigma**2)
    model = estimate(data.domain, measured, AIM_STEPS)
    while spent < rho * (1 - 1e-9):
        if rho - spent < 2 * (1 / (2 * sigma**2) + epsilon**2 / 8):
            sigma, epsilon = math.sqrt(1 / (1.8 * (rho - spent))), math.sqrt(0.8 * (rho - spent))
        spent += 1 / (2 * sigma**2) + epsilon**2 / 8
        clique = worst(exact, model, candidates, most_mb * spent / rho, sigma, epsilon, rng)
        before = counts(model, clique)
        measured += measure(data, [clique], sigma, rng)
        model = estimate(data.domain, measured, AIM_STEPS, warm=model)
        change = np.abs(counts(model, clique) - before).sum()
        if change <= math.sqrt(2 / math.pi) * sigma * before.size:
            sigma, epsilon = sigma / 2, epsilon * 2
    model = estimate(data.domain, measured, AIM_STEPS, warm=model)
    return lambda rows: model.synthetic_data(rows).to_dict()


def worst(exact: Any, model: Any, candidates: Any, limit: float, sigma: float, epsilon: float, rng: Any) -> Any:
    """Choose a candidate that keeps the model small and that it fits badly, beyond what noise would hide."""
    from mbi.junction_tree import hypothetical_model_size
    from mbi.marginal_oracles import bulk_variable_elimination

    known = [tuple(clique) for clique in model.cliques]
    free = {part for clique in known for size in (1, 2) for part in itertools.combinations(clique, size)}
    small = [one for one in candidates if one in free or hypothetical_model_size(model.domain, [*known, one]) <= limit]
    fitted = bulk_variable_elimination(model.potentials, small, float(model.total))
    noise = math.sqrt(2 / math.pi) * sigma
    scores = [
        candidates[one] * (np.abs(exact[one] - counts(fitted, one)).sum() - noise * exact[one].size) for one in small
    ]
    return small[choose(scores, epsilon, max(candidates[one] for one in small), rng)]


if __name__ == "__main__":
    exchange.run("mbi", fit)
