"""The documentation is true: links, proofs and examples; and the checks that say so can fail."""

import doctest
import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def load(name):
    """Return a module of the documentation's folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"documentation_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check = load("check")


@pytest.fixture
def house(tmp_path):
    """Return a function that writes a small repository of documents."""

    def write(**files):
        (tmp_path / "docs" / "proofs").mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.with_suffix(".md").write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize("name", ["broken_links", "untested_proofs", "unproven", "house"])
def test_the_documentation_has_no_problem(name):
    assert getattr(check, name)(ROOT) == []


def test_every_block_is_of_a_kind_that_is_run_or_read():
    # Python by docs/check.py, commands and TOML by tests; text is drawings, and the plan of the house is compared.
    kinds = {"python", "console", "toml", "text", "house"}
    blocks = [block for page in check.pages(ROOT) for block in check.blocks(page)]
    assert [(block.path.name, block.line) for block in blocks if block.info not in kinds] == []


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.usefixtures("usual_rows")
def test_examples_in_docstrings_hold(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert result.attempted > 0
    assert result.failed == 0


def test_a_broken_link_is_found_with_its_line(house):
    root = house(README="# Title\n\n[ok](docs/a.md#a-part) [gone](docs/b.md)\n![no](x.png)\n", docs__a="# A part\n")
    assert check.broken_links(root) == [
        "README.md:3: link leads nowhere: docs/b.md",
        "README.md:4: link leads nowhere: x.png",
    ]


def test_a_link_to_a_missing_heading_is_found(house):
    root = house(README="[part](docs/a.md#other) [web](https://example.org/x)\n", docs__a="# A part\n")
    assert check.broken_links(root) == ["README.md:1: link leads nowhere: docs/a.md#other"]


def test_links_inside_code_are_not_links(house):
    assert check.broken_links(house(README="```text\n[x](gone.md)\n```\n")) == []


def test_a_proof_without_a_test_or_with_an_unknown_one_is_found(house):
    (house() / "tests").mkdir()
    root = house(docs__proofs__a="# A\n", docs__proofs__b="`tests/test_x.py::test_it`, `tests/test_x.py::test_that`\n")
    (root / "tests" / "test_x.py").write_text("def test_it():\n    pass\n", encoding="utf-8")
    assert check.untested_proofs(root) == [
        "docs/proofs/a.md:1: names no test that checks it",
        "docs/proofs/b.md:1: no such test: tests/test_x.py::test_that",
    ]


def test_a_query_an_event_and_a_door_without_a_proof_are_found(house):
    root = house(docs__proofs__a="We measure a Count. `Marginal`, `Pure`, `table.select`\n")
    problems = check.unproven(root)
    for name in ("Count", "Gaussian", "measure"):
        assert f"docs/proofs: says nothing of `{name}`" in problems
    assert not any(f"`{name}`" in problem for name in ("Marginal", "Pure", "select") for problem in problems)


def test_a_failing_block_is_found_with_its_line(house):
    good = "```python\nvalue = 1\n```\n\n```python\nassert value == 1\n```\n"
    root = house(README=good + "\n```python\nvalue += 1\nvalue / 0\n```\n", docs__a=good)
    assert check.failing_blocks(root) == ["README.md:11: code block fails: ZeroDivisionError: division by zero"]


def test_a_block_marked_no_run_is_skipped(house):
    assert check.failing_blocks(house(README="```python no-run\n1 / 0\n```\n")) == []


def test_help_that_the_command_does_not_say_is_found(house):
    root = house(README="```console\n$ threea --help\nsomething else\n```\n")
    stale = ["README.md:2: is not what `threea --help` says; run python docs/check.py --mend"]
    assert check.stale_help(root, mend=True) == stale
    assert check.stale_help(root) == []


def test_a_figure_that_was_not_measured_is_found(house):
    root = house(README="It is <!-- a-b: rows.1.mean -->0.91 <!-- a-b: rows.1.mean -->0.92 <!-- c: auc -->0.500\n")
    results = root / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "a-b.json").write_text('{"rows": [{}, {"mean": 0.9149}]}', encoding="utf-8")
    (results / "c.json").write_text('{"results": {"auc": 0.25}}', encoding="utf-8")
    assert check.wrong_figures(root) == [
        "README.md: 0.92 should be 0.91 (a-b: rows.1.mean)",
        "README.md: 0.500 should be 0.250 (c: auc)",
    ]


def test_figures_may_have_signs_be_counts_and_not_begin_a_line(house):
    root = house(
        README="It is <!-- a: loss -->−0.10 <!-- a: gain -->+0.2 <!-- a: told -->4 of 5,\n  <!-- a: gain -->0.2.\n"
    )
    results = root / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "a.json").write_text('{"loss": -0.104, "gain": 0.2, "told": "3 of 5"}', encoding="utf-8")
    assert check.wrong_figures(root) == [
        "README.md:2: begins with a comment, which ends the paragraph above",
        "README.md: 4 of 5 should be 3 of 5 (a: told)",
    ]


def test_a_figure_is_found_by_the_names_of_its_entry_and_mended(house):
    path = "lines.dataset is adult and method is mst.mean"
    root = house(README=f"It is <!-- a: {path} -->0.50, <!-- a: lines.0.mean -->1\n")
    results = root / "benchmarks" / "results"
    results.mkdir(parents=True)
    lines = '[{"dataset": "adult", "method": "aim", "mean": 2}, {"dataset": "adult", "method": "mst", "mean": 0.26}]'
    (results / "a.json").write_text(f'{{"lines": {lines}}}', encoding="utf-8")
    wrong = [f"README.md: 0.50 should be 0.26 (a: {path})", "README.md: 1 should be 2 (a: lines.0.mean)"]
    assert check.wrong_figures(root, mend=True) == wrong
    assert (root / "README.md").read_text(
        encoding="utf-8"
    ) == f"It is <!-- a: {path} -->0.26, <!-- a: lines.0.mean -->2\n"
    assert check.wrong_figures(root) == []


def test_an_included_part_ends_where_it_says(house):
    root = house(README="<!-- include a.md until Details -->\nold\n<!-- end -->\n<!-- include a.md -->\n<!-- end -->\n")
    (root / "a.md").write_text("# A\n\nfirst\n\n## Details of it\n\nsecond\n", encoding="utf-8")
    assert check.stale_includes(root) == ["README.md: not what it includes; run python docs/check.py --mend"]
    check.stale_includes(root, mend=True)
    assert (root / "README.md").read_text(encoding="utf-8") == (
        "<!-- include a.md until Details -->\n\n# A\n\nfirst\n\n<!-- end -->\n"
        "<!-- include a.md -->\n\n# A\n\nfirst\n\n## Details of it\n\nsecond\n\n<!-- end -->\n"
    )
    assert check.stale_includes(root) == []


def test_a_tree_that_differs_from_its_plan_is_told(house):
    root = house(**{"docs__how-it-works": "```house\nattic/     gone\ndoor.py    here\n```\n"})
    source = root / "src" / "threea"
    source.mkdir(parents=True)
    (source / "door.py").touch()
    (source / "__init__.py").touch()
    (source / "cellar").mkdir()
    assert check.house(root) == [
        "docs/how-it-works.md: lists attic/, which is not there",
        "docs/how-it-works.md: does not list cellar/",
    ]
