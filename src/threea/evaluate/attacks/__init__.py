"""Attacks on a release: each asks one question, and is put beside the same attack on rows the release never saw."""

from __future__ import annotations

from typing import Any

from threea.evaluate.attacks import distance, inference, membership, singling
from threea.evaluate.attacks.decision import SHARE, decided
from threea.evaluate.attacks.scene import FEWEST, Scene
from threea.evaluate.evidence import Evidence
from threea.evaluate.intervals import LEVEL

CAVEAT = (
    "Attacks find leaks, they do not prove their absence: what bounds every attack, also those not tried here, is the "
    "certificate's guarantee. They assume that training and holdout rows were divided at random."
)


def attacks(evidence: Evidence, seed: int = 0) -> dict[str, Any]:
    """Attack a release, and say what each attack can and cannot show.

    The result is plain data::

        level     of every interval
        share     of releases that remember nothing, which have a sign at most
        caveat    what all attacks together cannot show
        sizes     rows in each sample
        signs     names of the attacks that found a sign of memory
        attacks   a list of
            name, question, shows, cannot_show, rows    in plain words
            figures   a list of name, value, interval [low, high], how, baseline, decides, p
            sign      whether a deciding figure is further above its baseline than chance allows (see `pairs`)
            verdict   a sentence

    Guarantees:
        - Deterministic: equal evidence and seed give equal results.
        - Fires on a release that copies its rows.
        - Stays silent on fresh rows of the same kind, but for 5 of 100 of them at most, however many rows a person has.

    Args:
        evidence: The release beside real rows.
        seed: Which samples are drawn.

    Returns:
        What was found; the list of attacks is empty where a table has too few rows.

    Raises:
        MissingExtra: LightGBM is not installed.
    """
    result: dict[str, Any] = {"level": LEVEL, "share": SHARE, "caveat": CAVEAT, "sizes": {}, "signs": [], "attacks": []}
    scene = Scene.of(evidence, seed)
    if scene is None:
        few = f" Too few to attack: {FEWEST} released rows, {FEWEST} training and {2 * FEWEST} holdout persons needed."
        return result | {"caveat": CAVEAT + few}
    listed = decided(
        [
            distance.closest_record(scene),
            distance.neighbour_ratio(scene),
            distance.identifiability(scene),
            distance.exact_copies(scene),
            membership.density_ratio(scene),
            membership.classifier(scene),
            inference.attribute_inference(scene),
            *singling.singling_out(scene),
            inference.linkability(scene),
        ]
    )
    return result | {
        "sizes": scene.sizes,
        "signs": [attack["name"] for attack in listed if attack["sign"]],
        "attacks": listed,
    }
