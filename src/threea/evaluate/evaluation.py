"""The whole evaluation of a release: how useful it is, how like the private rows, and whom it gives away.

It reads private rows, so nothing it says may be released.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import threea
from threea.errors import SettingError
from threea.evaluate.attacks import attacks
from threea.evaluate.broken_rules import broken_rules
from threea.evaluate.divided import told_apart
from threea.evaluate.evidence import Evidence
from threea.evaluate.fidelity import fidelity
from threea.evaluate.owner_report import NOTICE, render
from threea.evaluate.utility import utility
from threea.evaluate.verdict import verdict
from threea.json_files import finite
from threea.publish import check_folder

Progress = Callable[[str], None]
"""Told what begins."""

REPORT, SCORES = "owner-report.html", "scores.json"

_FACTS = (
    "recipe",
    "settings",
    "guarantee",
    "epsilon",
    "accounted_epsilon",
    "delta",
    "adjacency",
    "unit",
    "assumptions",
    "schema_origin",
    "rows",
    "created",
    "threea_version",
    "synthetic_sha256",
)


def evaluate(evidence: Evidence, seed: int = 0, progress: Progress | None = None) -> dict[str, Any]:
    """Evaluate a release. Owner-only: it reads private rows.

    Guarantees:
        - Deterministic: equal evidence and seed give equal scores.
        - Plain data that JSON can hold.

    Args:
        evidence: The release and the real rows.
        seed: Makes it repeatable.
        progress: Told what begins.

    Returns:
        ``notice`` (for the owner only), ``threea_version`` (which made the scores), ``seed``, ``certificate`` (the
        release's, in short), ``verdict`` (is it good enough for training, in a sentence), ``warnings`` (sentences),
        ``split`` (``auc`` of a model that tries to distinguish training from holdout rows, and whether they were
        divided at ``random`` as far as that shows; see `divided.told_apart`), ``utility`` (see `utility.utility`; None
        without a target), ``fidelity`` (see `fidelity.fidelity`) and ``attacks`` (see `attacks.attacks`).

    Raises:
        InputError: The real rows have nothing to learn.
        MissingExtra: scikit-learn or LightGBM is not installed.
    """
    tell = progress or (lambda _: None)
    learned = utility(evidence, seed, tell) if evidence.schema.target is not None else None
    tell("distances between the tables")
    alike = fidelity(evidence, seed)
    tell("attacks")
    attacked = attacks(evidence, seed)
    tell("the split of the real rows")
    split = told_apart(evidence, seed)
    scores = {
        "notice": NOTICE,
        "threea_version": threea.__version__,
        "seed": seed,
        "certificate": {fact: evidence.certificate.get(fact) for fact in _FACTS},
        "verdict": verdict(learned, alike),
        "warnings": _warnings(evidence, learned, attacked, split),
        "split": split,
        "utility": learned,
        "fidelity": alike,
        "attacks": attacked,
    }
    plain: dict[str, Any] = finite(scores)
    return plain


def _warnings(
    evidence: Evidence, learned: dict[str, Any] | None, attacked: dict[str, Any], split: dict[str, Any]
) -> list[str]:
    """Return what the owner should know before trusting a score, each once."""
    warnings = [*evidence.warnings, *broken_rules(evidence.train, evidence.schema)]
    if not split["random"]:
        apart = (
            f"AUC {split['auc']['value']:.3f} [{split['auc']['interval'][0]:.3f}, {split['auc']['interval'][1]:.3f}]"
        )
        warnings.append(
            f"training and holdout rows can be told apart ({apart}): they were not divided at random, so attacks may "
            f"see signs where there are none, and sampling alone looks worse than it is; {_cure(evidence)}"
        )
    guarantee = evidence.certificate.get("guarantee")
    if guarantee != "proven":
        warnings.append(
            f"the release's guarantee is {guarantee}: whatever the attacks say, no proof bounds what it reveals"
        )
    if learned is None:
        warnings.append("the release has no target; there is nothing to predict, and usefulness was not measured")
    else:
        warnings += learned["notes"]
        if not learned["independent"]["made"]:
            warnings.append(f"the comparison with `independent` is left out, {learned['independent']['how']}")
    if not attacked["attacks"]:
        warnings.append("too few rows to attack, or too few persons: what the release gives away was not measured")
    return list(dict.fromkeys(warnings))


def _cure(evidence: Evidence) -> str:
    if evidence.unit is not None:
        return f"divide the table with `threea split --unit {evidence.unit}`"
    return "divide the table with `threea split`, with `--unit` if people may have several rows"


def check_place(release: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Return the folder for an evaluation, beside the release by default; refuse one that cannot be used.

    Guarantees:
        - Never inside the release: what is in there leaves the house.

    Raises:
        SettingError: The folder is in the release, holds something, or cannot be made.
    """
    released = Path(release).absolute()
    folder = Path(out) if out is not None else released.with_name(f"{released.resolve().name}-evaluation")
    inside = released.resolve()
    if inside in (folder.resolve(), *folder.resolve().parents):
        raise SettingError(f"out ({folder}) is inside the release, and scores must not leave with it; choose another")
    return check_folder(folder)


def save(scores: dict[str, Any], evidence: Evidence, out: str | PathLike[str]) -> list[Path]:
    """Write an evaluation to a new or empty folder that only its owner can read; whole, or not at all.

    Returns:
        The files made.

    Raises:
        SettingError: The folder cannot be used, or the disk is full.
    """
    folder = check_folder(out)
    texts = {
        REPORT: render(scores, evidence),
        SCORES: json.dumps(scores, indent=2, allow_nan=False, ensure_ascii=False) + "\n",
    }
    staging = problem = None
    try:
        # A folder made so can be read by nobody else, and stays that way.
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}-", dir=folder.absolute().parent))
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8", errors="replace")
        staging.rename(folder)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    finally:
        if staging:
            shutil.rmtree(staging, ignore_errors=True)
    if problem:
        raise SettingError(f"out ({folder}) cannot be written: {problem}; make room or choose another place")
    return [folder / name for name in texts]
