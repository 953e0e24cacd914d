"""The tables on which published GANs are attacked. Why they leak is tested in `tests/published`, without any chance."""

import pytest

from benchmarks import network_leaks
from threea.certificate import Guarantee

ATTACKS = network_leaks.attacks()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_tables_differ_in_one_row(name):
    left, right = (table["amount"].to_pylist() for table in ATTACKS[name].tables)
    assert sum(one != other for one, other in zip(left, right, strict=True)) == 1


def test_proven_forms_are_attacked_on_the_same_tables():
    proven = {name for name in ATTACKS if network_leaks.mode(name) == "proven"}
    assert {ATTACKS[name].recipe.guarantee for name in proven} == {Guarantee.PROVEN}
    assert ATTACKS["proven"].tables == ATTACKS["pategan, stop"].tables
    assert ATTACKS["proven, two"].tables == ATTACKS["pategan, paper"].tables == ATTACKS["pategan, code"].tables
    assert set(network_leaks.PANELS) <= set(ATTACKS)
