"""Every kind of release is found in its ledger, as its certificate says; changed anywhere, it is not."""

import json

import pytest

import threea
from threea import hospital
from threea.errors import SettingError
from threea.ledger import Ledger
from threea.ledger.certified import check_certificate
from threea.recipes import DPGan, PrivBayes

KINDS = {
    "a row": {"recipe": "independent"},
    "a person, neighbours by replacement": {
        "recipe": "labeltree",
        "unit": "patient_id",
        "max_rows_per_unit": 2,
        "adjacency": "replace",
    },
    "a schema that is found": {"recipe": "independent", "schema": None, "epsilon": 5.0},
    "without a delta": {"recipe": PrivBayes(noise="laplace"), "delta": 0.0},
    "with a score": {"recipe": "independent", "score": 0.2},
    "rows handed out": {"recipe": "dpmix-published", "accept_unproven": True, "rows": None},
    "a training run": {"recipe": DPGan(epochs=0.5, width=4)},
}


def certified(folder, **options):
    stays = hospital.stays(300)
    common = {"schema": hospital.schema(), "target": "died", "epsilon": 2.0, "rows": 50, "dataset": "stays"}
    release = threea.synthesize(stays, **{**common, "ledger": folder / "l.db", **options})
    return json.loads(release.certificate().to_json())


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_each_kind_of_release_is_in_its_ledger(tmp_path, options):
    certificate = certified(tmp_path, **options)
    with Ledger(tmp_path / "l.db", reading=True) as ledger:
        head = check_certificate(ledger, certificate)
        assert head == ledger.head
        changes = [{"events": certificate["events"][1:]}, {"unit": "all rows of one hospital"}, {"adjacency": "none"}]
        if all(event["event"] != "NonPrivate" for event in certificate["events"]):
            changes += [{"epsilon": certificate["epsilon"] / 50}, {"delta": certificate["delta"] + 1e-9}]
        for change in changes:
            with pytest.raises(SettingError, match="has a certificate that was changed: "):
                check_certificate(ledger, {**certificate, **change})


def test_earlier_releases_stay_in_a_ledger_that_goes_on(tmp_path):
    made = [certified(tmp_path, recipe="independent", epsilon=epsilon) for epsilon in (0.5, 1.0, 0.5)]
    with Ledger(tmp_path / "l.db") as ledger:
        for certificate in made:
            check_certificate(ledger, certificate)
        with pytest.raises(SettingError, match=r"epsilon is 0\.5, and 1 in the ledger"):
            check_certificate(ledger, {**made[1], "epsilon": 0.5})
