"""A ledger that cannot forget: damage, loss, older copies and replaced files are noticed before anything is decided."""

import os
import random
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from benchmarks import ledger_faults as faults
from threea.errors import BudgetRefused, LedgerError
from threea.ledger import Ledger, open_ledger
from threea.ledger import file as module
from threea.ledger.chain import Chain, LedgerHead, canonical, entry_hash

EVENT = {"event": "Gaussian", "noise_multiplier": 4.0}


def reserve(ledger, epsilon=1.0):
    return ledger.reserve("d", epsilon=epsilon, delta=1e-6, lines=[("count", EVENT, 1), ("step", EVENT, 3)])


def filled(path, releases=3):
    with Ledger(path, create=True) as ledger:
        ledger.register("d", lambda key: "rows", cap=10.0)
        for _ in range(releases):
            ledger.charge(reserve(ledger), "count")
    return path


def refuses(match, act, *arguments):
    with pytest.raises(LedgerError, match=match) as caught:
        act(*arguments)
    assert str(caught.value).isprintable()
    return True


@pytest.fixture
def path(tmp_path):
    return filled(tmp_path / "l.db")


# --- empty, cut, new ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("create", [True, False])
def test_an_existing_empty_file_is_refused(tmp_path, create):
    (tmp_path / "l.db").touch()
    refuses(
        "is an empty file: it was a ledger and lost its content.*; .*restore it",
        lambda: Ledger(tmp_path / "l.db", create=create),
    )
    assert (tmp_path / "l.db").read_bytes() == b""


def test_a_ledger_cut_to_any_length_is_noticed(path):
    content = path.read_bytes()
    lengths = {*range(0, 140), *range(0, len(content), 61), *range(len(content) - 20, len(content)), 4095, 4096, 4097}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        assert refuses("ledger .* is ", Ledger, path), length
        assert path.stat().st_size == length, "and is left as it is"


def test_a_new_ledger_is_made_only_on_demand_and_says_so(tmp_path):
    refuses(r"does not exist; is the path mistyped\?", Ledger, tmp_path / "l.db")
    assert os.listdir(tmp_path) == []
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        assert ledger.new
    assert os.listdir(tmp_path) == ["l.db"]
    for create in (True, False):
        with Ledger(tmp_path / "l.db", create=create) as ledger:
            assert not ledger.new
    assert not Ledger().new


def test_a_capped_release_makes_a_ledger_only_on_demand(tmp_path):
    refuses("mistyped.*--new-ledger", lambda: open_ledger(tmp_path / "l.db", cap=4.0))
    assert os.listdir(tmp_path) == []
    assert open_ledger(tmp_path / "uncapped.db").new
    assert open_ledger(tmp_path / "l.db", cap=4.0, new=True).new
    assert not open_ledger(tmp_path / "l.db", cap=4.0).new
    refuses("exists already; leave --new-ledger out", lambda: open_ledger(tmp_path / "l.db", new=True))


def test_a_link_that_leads_nowhere_is_no_ledger(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "gone.db")
    refuses("mistyped", lambda: open_ledger(tmp_path / "link.db", cap=4.0))
    with Ledger(tmp_path / "link.db", create=True) as ledger:
        assert ledger.new
    assert (tmp_path / "gone.db").is_file()


def test_a_new_ledger_appears_whole_and_its_folder_is_synced(tmp_path, monkeypatch):
    seen, fsync, link = [], os.fsync, os.link

    def synced(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            seen.append("folder")
        fsync(descriptor)

    def linked(draft, file):
        Ledger(draft).close()  # whole before it has its name
        seen.append("link")
        link(draft, file)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    # The lock is the process's own, and `linked` opens a ledger within it.
    monkeypatch.setattr(module, "_LOCK", module.threading.RLock())
    Ledger(tmp_path / "l.db", create=True).close()
    assert seen == ["link", "folder"]
    assert os.listdir(tmp_path) == ["l.db"]


def test_a_file_system_without_hard_links_gives_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def unsupported(draft, file):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    refuses(
        "cannot be made .Operation not permitted.; give another path", lambda: Ledger(tmp_path / "l.db", create=True)
    )
    assert os.listdir(tmp_path) == []


def test_a_ledger_and_its_journal_are_the_owners_alone(tmp_path):
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.register("d", lambda key: "rows")
        with ledger.transaction():
            ledger.write({"kind": "ledger", "key": ""})
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {"l.db": 0o600, "l.db-journal": 0o600}


# --- the chain ---------------------------------------------------------------------------------------------


def test_each_hash_covers_the_one_before_and_the_content(path):
    rows = sqlite3.connect(path).execute("SELECT number, content, sha256 FROM entries").fetchall()
    before = "0" * 64
    for place, (number, content, sha256) in enumerate(rows, start=1):
        assert number == place
        assert sha256 == entry_hash(before, content)
        before = sha256
    with Ledger(path) as ledger:
        assert ledger.head == LedgerHead(8, before)
        assert all(ledger.holds(LedgerHead(number, sha256)) for number, _, sha256 in rows)
        assert not ledger.holds(LedgerHead(7, before))
        assert not ledger.holds(LedgerHead(9, before))


def rewrite(path, act):
    """Change the entries behind the ledger's back, and put the triggers back."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    for trigger in ("update", "delete"):
        connection.execute(f"DROP TRIGGER entries_no_{trigger}")
    act(connection)
    for statement in module._SCHEMA[1:]:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.close()


CHANGE = "UPDATE entries SET content = replace(content, '{}', '{}') WHERE number = {}"
REWRITES = {
    "a cap raised": CHANGE.format('"cap":10.0', '"cap":99.0', 2),
    "an epsilon lowered": CHANGE.format('"epsilon":1.0', '"epsilon":0.1', 3),
    "a dataset renamed": CHANGE.format('"d"', '"e"', 5),
    "content as bytes": "UPDATE entries SET content = CAST(content AS BLOB) WHERE number = 4",
    "the last entry gone": "DELETE FROM entries WHERE number = 8",
    "a middle entry gone": "DELETE FROM entries WHERE number = 5",
    "all entries gone": "DELETE FROM entries",
    "a number changed": "UPDATE entries SET number = 80 WHERE number = 8",
    "the count lowered": "PRAGMA user_version = 7",
    "the count raised": "PRAGMA user_version = 9",
}


@pytest.mark.parametrize("act", REWRITES.values(), ids=REWRITES)
def test_entries_changed_behind_its_back_are_noticed(path, act):
    with Ledger(path) as ledger:
        rewrite(path, lambda connection: connection.execute(act))
        refuses("is damaged|no longer holds", ledger.check)
    refuses("is damaged; restore it from a backup", Ledger, path)


def test_a_forger_who_rebuilds_the_chain_is_found_by_an_earlier_certificate(path):
    """The chain is no lock: whoever may write the file can write all of it anew."""
    with Ledger(path) as ledger:
        certified = ledger.head

    def forge(connection):
        before = "0" * 64
        for number, content in connection.execute("SELECT number, content FROM entries").fetchall():
            content = content.replace('"cap":10.0', '"cap":99.0')
            before = entry_hash(before, content)
            connection.execute("UPDATE entries SET content = ?, sha256 = ? WHERE number = ?", (content, before, number))

    rewrite(path, forge)
    with Ledger(path) as ledger:
        assert ledger.datasets()[0].cap == 99.0
        assert ledger.head.entries == certified.entries
        assert not ledger.holds(certified)


FREE = {"epsilon": 0.0, "delta": 0.0, "id": "a", "dataset": "d", "recipe": "", "lines": [], "created": ""}
NO_ENTRIES = {
    "null": "null",
    "a list": "[]",
    "no fields": '{"kind":"charge"}',
    "no JSON": "x",
    "deep": "[" * 100_000,
    "no kind": '{"kind":["charge"]}',
    "a free release": canonical({"kind": "release", **FREE}),
    "a release that is not a number": canonical({"kind": "release", **FREE, "epsilon": float("nan")}),
    "a release in words": canonical({"kind": "release", **FREE, "epsilon": "1"}),
    "no number for a cap": '{"cap":NaN,"created":"","fingerprint":"","kind":"dataset","name":"d","terms":""}',
}


@pytest.mark.parametrize("content", NO_ENTRIES.values(), ids=NO_ENTRIES)
def test_content_that_no_ledger_writes_is_an_error_even_with_right_hashes(path, content):
    with Ledger(path) as ledger:
        row = (9, content, entry_hash(ledger.head.sha256, content))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    refuses("another version|newer", Ledger, path)


def test_an_unverified_entry_is_told_from_a_verified_one():
    chain = Chain()
    first = canonical({"kind": "x"})
    good = (1, first, entry_hash(chain.head.sha256, first))
    assert chain.verified([good]) == [good[1:]]
    for bad in [(2, *good[1:]), (1, first + " ", good[2]), (1, first, "0" * 64), (1, None, good[2]), (1, first, None)]:
        with pytest.raises(ValueError, match="entry 1"):
            chain.verified([bad])
    assert chain.head.entries == 0, "checking enters nothing"


def test_the_number_of_entries_says_nothing_about_the_rows(path):
    """Certificates show it: a table that changed since the last release adds as many entries as one that did not."""
    grown = []
    for rows in ("rows", "rows with one more"):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        with Ledger(copy) as ledger:
            before = ledger.head.entries
            ledger.register("d", lambda key, rows=rows: rows)
            grown.append(ledger.head.entries - before)
    assert grown == [1, 1]


def test_a_head_cannot_be_guessed_without_the_ledgers_secret(tmp_path, monkeypatch):
    """The same acts at the same time give another head in another ledger: the first entry holds 32 random bytes."""
    monkeypatch.setattr(module, "now", lambda: "now")
    heads = set()
    for name in ("a.db", "b.db"):
        with Ledger(tmp_path / name, create=True) as ledger:
            ledger.register("d", lambda key: "rows")
            heads.add(ledger.head)
    assert len(heads) == 2
    assert {head.entries for head in heads} == {2}


def test_a_head_prints_and_goes_through_json():
    head = LedgerHead(3, "ab" * 32)
    assert str(head) == f"3 entries, sha256 {'ab' * 32}"
    assert str(LedgerHead(1, "ab" * 32)).startswith("1 entry, ")
    assert head.to_json() == {"entries": 3, "sha256": "ab" * 32}
    assert LedgerHead.from_json(head.to_json()) == head


@pytest.mark.parametrize(
    "data",
    [None, 3, "x", [], {}, {"entries": 3}, {"entries": "3", "sha256": "ab" * 32}, {"entries": 0, "sha256": "ab" * 32}]
    + [{"entries": 3, "sha256": sha256} for sha256 in ("", "ab", "AB" * 32, "\x1b" * 64, None, 7)],
)
def test_what_is_no_head_is_refused(data):
    with pytest.raises(ValueError, match="not the head"):
        LedgerHead.from_json(data)


# --- while a process has it open ---------------------------------------------------------------------------


def put_copy(path, older):
    shutil.copyfile(older, path)


def put_file(path, older):
    path.rename(path.with_name("kept.db"))
    shutil.copyfile(older, path)


def put_another(path, older):
    path.unlink()
    filled(path, releases=9)


SWITCHES = {
    "removed": lambda path, older: path.unlink(),
    "emptied": lambda path, older: os.truncate(path, 0),
    "older copy put over it": put_copy,
    "replaced by an older copy": put_file,
    "replaced by another ledger": put_another,
    "replaced by an equal copy": lambda path, older: os.replace(shutil.copy(path, path.with_name("new.db")), path),
}


@pytest.mark.parametrize("act", ["reserve", "charge", "check", "datasets"])
@pytest.mark.parametrize("switch", SWITCHES.values(), ids=SWITCHES)
def test_a_ledger_removed_or_replaced_in_use_is_noticed(path, switch, act):
    older = path.with_name("older.db")
    shutil.copy(path, older)
    with Ledger(path) as ledger:
        release = reserve(ledger)
        acts = {
            "reserve": lambda: reserve(ledger),
            "charge": lambda: ledger.charge(release, "count"),
            "check": ledger.check,
            "datasets": ledger.datasets,
        }
        ledger.check()
        switch(path, older)
        refuses("removed or replaced|no longer holds|is damaged", acts[act])


def test_a_ledger_replaced_within_a_transaction_is_noticed_at_its_end(path):
    copy = shutil.copy(path, path.with_name("copy.db"))
    with Ledger(path) as ledger:

        def spend():
            with ledger.transaction():
                ledger.write({"kind": "charge"})
                os.replace(copy, path)

        refuses("removed or replaced", spend)


def test_a_copy_that_went_its_own_way_is_noticed_when_put_over(path):
    """Both made the same number of changes since they parted, which is all that SQLite's own cache looks at."""
    other = path.with_name("other.db")
    with Ledger(path) as ledger:
        shutil.copy(path, other)
        reserve(ledger, 1.0)
        connection = sqlite3.connect(other, isolation_level=None)
        content = canonical({"kind": "charge"})
        connection.execute("BEGIN")
        connection.execute("INSERT INTO entries VALUES (9, ?, ?)", (content, entry_hash(ledger.head.sha256, content)))
        connection.execute("PRAGMA user_version = 9")
        connection.execute("COMMIT")
        connection.close()
        assert other.read_bytes()[24:28] == path.read_bytes()[24:28]
        shutil.copyfile(other, path)
        refuses("no longer holds what was written to it", reserve, ledger)


def test_what_other_processes_wrote_is_verified_and_counted(path):
    with Ledger(path) as one, Ledger(path) as two:
        reserve(one, 6.0)
        with pytest.raises(BudgetRefused, match="spent 9 of 10"):
            reserve(two, 2.0)
        assert one.head == two.head
        reserve(one, 0.5)
        content = path.read_bytes()
        place = content.rindex(b'"epsilon":0.5')
        path.write_bytes(content[:place] + b'"epsilon":0.1' + content[place + 13 :])
        refuses("is damaged", reserve, two)


def test_a_process_decides_by_what_it_verified_not_by_what_became_of_it(path):
    """Damage to what was read before changes nothing until the whole file is read again, which notices it."""
    with Ledger(path) as ledger:
        content = path.read_bytes()
        place = content.index(b'"cap":10.0')
        path.write_bytes(content[:place] + b'"cap":90.0' + content[place + 10 :])
        with pytest.raises(BudgetRefused, match="spent 3 of 10"):
            reserve(ledger, 8.0)
        refuses("is damaged", ledger.check)
    refuses("is damaged", Ledger, path)


def test_check_reads_the_file_and_costs_no_entry(path):
    with Ledger(path) as ledger, Ledger(path) as other:
        reserve(other)
        ledger.check()
        assert ledger.head == other.head
        assert ledger.head.entries == 9
    with Ledger() as memory:
        memory.check()
        assert memory.head.entries == 1


@pytest.mark.parametrize("on_disk", [True, False])
def test_an_interrupt_right_after_the_commit_leaves_nothing_out(tmp_path, monkeypatch, on_disk):
    """The entry is on disk, and the books of the process that goes on hold it, too."""
    append, cut = Chain.append, []

    def interrupted(chain, sha256):
        if not cut:
            cut.append(sha256)
            raise KeyboardInterrupt
        append(chain, sha256)

    with Ledger(filled(tmp_path / "l.db") if on_disk else None) as ledger:
        ledger.register("d", lambda key: "rows", cap=10.0)
        before = ledger.datasets()[0].spent
        monkeypatch.setattr(Chain, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reserve(ledger, 6.0)
        assert ledger.datasets()[0].spent >= before + 6.0
        with pytest.raises(BudgetRefused):
            reserve(ledger, 6.0)


# --- faults at random --------------------------------------------------------------------------------------


@pytest.fixture
def unsynced(monkeypatch):
    """Leave out the waiting for a disk: these tests change bytes, and do not pull a plug."""
    monkeypatch.setattr(module, "_PRAGMAS", ("synchronous = OFF", *module._PRAGMAS[1:]))


def test_random_faults_are_noticed_or_harmless(tmp_path, unsynced):
    """`python -m benchmarks ledger_faults` strikes 10,000 times; here as many as take about 5 s of a processor."""
    counts = faults.run(700, 7, tmp_path)
    ends = {kind: set(found) for kind, found in counts.items()}
    for kind in (*faults.BYTES, faults.OLD_PAGE):
        for when in ("at rest", "live"):
            assert "noticed" in ends[f"{kind}, {when}"]
            assert ends[f"{kind}, {when}"] <= {"noticed", "harmless"}
    assert ends[f"{faults.OLD_COPY}, at rest"] == {"noticed by a certificate"}
    assert ends[f"{faults.OLD_COPY}, live"] == ends[f"{faults.REMOVED}, live"] == {"noticed"}


def raise_a_cap(content, chance):
    content[content.index(b'"cap":2.5') + 6] ^= 4


@pytest.mark.parametrize("live", [True, False])
def test_the_faults_would_find_a_ledger_without_a_chain(tmp_path, unsynced, monkeypatch, live):
    shape, chance = faults.shapes(tmp_path)["two releases"], random.Random(3)
    monkeypatch.setitem(faults.BYTES, faults.FLIP, raise_a_cap)
    strike = (tmp_path / "struck.db", shape, faults.FLIP, chance)
    assert faults.trial(*strike, live=live) == "noticed"
    monkeypatch.setattr(Chain, "verified", lambda chain, rows: [(content, sha256) for _, content, sha256 in rows])
    with pytest.raises(faults.Forgotten, match=r"dataset 0: .*cap=6\.5"):
        faults.trial(*strike, live=live)


def test_a_crash_in_mid_transaction_is_rolled_back(tmp_path, unsynced):
    shape = faults.shapes(tmp_path)["crashed in mid-transaction"]
    path = Path(tmp_path / "crashed.db")
    path.write_bytes(shape.main)
    refuses("is damaged", Ledger, path)
    path.write_bytes(shape.main)
    path.with_name("crashed.db-journal").write_bytes(shape.journal)
    with Ledger(path) as ledger:
        assert ledger.head == shape.head
        assert {row.name: row.spent for row in ledger.datasets()} == shape.spent
