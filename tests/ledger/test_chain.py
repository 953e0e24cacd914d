"""A ledger that cannot forget: damage, loss, older copies and replaced files are noticed before anything is decided."""

import os
import random
import shutil
import stat

import pytest

from benchmarks import ledger_faults as faults
from threea.errors import BudgetRefused, LedgerError
from threea.ledger import Ledger, log, open_ledger
from threea.ledger import file as module
from threea.ledger.chain import Chain, LedgerHead, canonical, entry_hash, line_of

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


def test_a_ledger_is_the_owners_alone(tmp_path):
    Ledger(tmp_path / "l.db", create=True).close()
    assert (tmp_path / "l.db").stat().st_mode & 0o777 == 0o600


# --- the chain ---------------------------------------------------------------------------------------------


def entries_of(path):
    """Return the entries' contents as they stand in the file."""
    return [line.split(b" ", 2)[2].decode() for line in path.read_bytes()[log.PAGE :].splitlines()]


def rewrite(path, contents):
    """Write a ledger of such contents anew, as a forger might: whole, with right hashes."""
    before, lines = "0" * 64, []
    for number, content in enumerate(contents, start=1):
        before = entry_hash(before, content)
        lines.append(line_of(number, content, before))
    path.write_bytes(log.first_page(len(lines)) + b"".join(lines))


def test_each_hash_covers_the_one_before_and_the_content(path):
    rows = [line.decode().split(" ", 2) for line in path.read_bytes()[log.PAGE :].splitlines()]
    before = "0" * 64
    for place, (number, sha256, content) in enumerate(rows, start=1):
        assert number == str(place)
        assert sha256 == entry_hash(before, content)
        before = sha256
    with Ledger(path) as ledger:
        assert ledger.head == LedgerHead(8, before)
        assert all(ledger.holds(LedgerHead(int(number), sha256)) for number, sha256, _ in rows)
        assert not ledger.holds(LedgerHead(7, before))
        assert not ledger.holds(LedgerHead(9, before))


def swap(number, old, new):
    def act(lines):
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)

    return act


CHANGES = {
    "a cap raised": swap(2, b'"cap":10.0', b'"cap":99.0'),
    "an epsilon lowered": swap(3, b'"epsilon":1.0', b'"epsilon":0.1'),
    "a dataset renamed": swap(5, b'"d"', b'"e"'),
    "a hash in capitals": lambda lines: lines.__setitem__(3, lines[3].upper()),
    "a byte that is no text": swap(4, b"kind", b"k\xefnd"),
    "a byte that was never written": swap(4, b"kind", b"k\0nd"),
    "the last entry gone": lambda lines: lines.pop(),
    "a middle entry gone": lambda lines: lines.pop(4),
    "all entries gone": lambda lines: lines.clear(),
    "an entry twice": lambda lines: lines.insert(4, lines[4]),
    "two entries swapped": lambda lines: lines.insert(4, lines.pop(5)),
    "a number changed": swap(8, b"8 ", b"80 "),
    "a number with a zero before it": swap(8, b"8 ", b"08 "),
    "a line's end lost": swap(5, b"\n", b" "),
    "the last line's end lost": swap(8, b"\n", b""),
    "an empty line": lambda lines: lines.insert(4, b"\n"),
    "a strange line at the end": lambda lines: lines.append(b"9 9 9\n"),
}


def changed(path, act):
    stored = path.read_bytes()
    lines = stored[log.PAGE :].splitlines(keepends=True)
    act(lines)
    with path.open("r+b") as file:
        file.write(stored[: log.PAGE] + b"".join(lines))
        file.truncate()


@pytest.mark.parametrize("act", CHANGES.values(), ids=CHANGES)
def test_entries_changed_behind_its_back_are_noticed(path, act):
    with Ledger(path) as ledger:
        changed(path, act)
        refuses("is damaged|no longer holds", ledger.check)
    refuses("is damaged; restore it from a backup", Ledger, path)


@pytest.mark.parametrize("entries", [0, 9, 2**60])
def test_a_number_of_entries_that_are_not_there_is_noticed(path, entries):
    with path.open("r+b") as file:
        file.write(log.header(entries))
    refuses("is damaged; restore it from a backup", Ledger, path)


@pytest.mark.parametrize("start", [0, 78, 4095, 4097, 2**40, 10**19, 10**20 - 1])
def test_entries_that_do_not_begin_where_the_first_page_says_are_noticed(path, start):
    with Ledger(path) as ledger:
        with path.open("r+b") as file:
            file.write(log.header(8, start))
        refuses("is damaged|no longer holds", ledger.check)
    refuses("is damaged", Ledger, path)


def test_a_lowered_number_of_entries_forgets_none(path):
    """As a lost write of the first page would leave it: whole lines beyond the number stand."""
    for entries in (7, 3, 1):
        with path.open("r+b") as file:
            file.write(log.header(entries))
        with Ledger(path, reading=True) as ledger:
            assert (ledger.head.entries, ledger.datasets()[0].spent) == (8, 3.0)
        assert path.read_bytes().startswith(log.header(entries)), "looking changes nothing"
    with Ledger(path) as ledger:
        assert ledger.head.entries == 8
    assert path.read_bytes().startswith(log.header(8))


def test_a_forger_who_rebuilds_the_chain_is_found_by_an_earlier_certificate(path):
    """The chain is no lock: whoever may write the file can write all of it anew."""
    with Ledger(path) as ledger:
        certified = ledger.head

    rewrite(path, [content.replace('"cap":10.0', '"cap":99.0') for content in entries_of(path)])
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
    rewrite(path, [*entries_of(path), content])
    refuses("another version|newer", Ledger, path)


def test_an_unverified_entry_is_told_from_a_verified_one():
    chain = Chain()
    content = canonical({"kind": "x"})
    sha256 = entry_hash(chain.head.sha256, content)
    assert list(chain.verified([line_of(1, content, sha256)], after=0)) == [(content, sha256)]
    for bad in [(2, content, sha256), (1, content + " ", sha256), (1, content, "0" * 64)]:
        with pytest.raises(ValueError, match="entry 1"):
            list(chain.verified([line_of(*bad)], after=0))
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
    other = path.with_name("other.db")
    with Ledger(path) as ledger:
        shutil.copy(path, other)
        reserve(ledger, 1.0)
        with Ledger(other) as own:
            reserve(own, 1.0)
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

    def interrupted(chain, sha256, size):
        if not cut:
            cut.append(sha256)
            raise KeyboardInterrupt
        append(chain, sha256, size)

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
    monkeypatch.setattr(log, "sync", lambda descriptor: None)


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


def believed(chain, lines, after):
    """Take each line for what it says."""
    for line in lines:
        _, sha256, content = line.decode().strip().split(" ", 2)
        yield content, sha256


@pytest.mark.parametrize("live", [True, False])
def test_the_faults_would_find_a_ledger_without_a_chain(tmp_path, unsynced, monkeypatch, live):
    shape, chance = faults.shapes(tmp_path)["two releases"], random.Random(3)
    monkeypatch.setitem(faults.BYTES, faults.FLIP, raise_a_cap)
    strike = (tmp_path / "struck.db", shape, faults.FLIP, chance)
    assert faults.trial(*strike, live=live) == "noticed"
    monkeypatch.setattr(Chain, "verified", believed)
    with pytest.raises(faults.Forgotten, match=r"dataset 0: .*cap=6\.5"):
        faults.trial(*strike, live=live)
