"""What the site's pages must have: every key of a schema, every public name, every recipe, every page in its menu."""

import re

import pytest

import threea
from test_docs import ROOT, check, load
from threea.errors import SchemaError
from threea.recipes import RECIPES
from threea.table.schema import Kind, Schema

links = load("site_links")

SCHEMA_PAGE = ROOT / "docs" / "guides" / "schema.md"
EXAMPLES = [block for block in check.blocks(SCHEMA_PAGE) if block.info == "toml"]


def known_keys():
    """Return the keys that the parser knows, of a table, a column and reading: given another, it lists them."""
    column = '[column.a]\nkind = "id"\n'
    for text in (f"nonsense = 1\n{column}", f"{column}nonsense = 1\n", f"[reading]\nnonsense = 1\n{column}"):
        with pytest.raises(SchemaError) as refusal:
            Schema.from_toml(text)
        yield from str(refusal.value).partition("known are ")[2].split(", ")


def test_every_key_and_kind_of_a_schema_is_explained_in_a_table():
    page = SCHEMA_PAGE.read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE))
    assert {key for key in known_keys() if f"`{key}`" not in rows} == set()
    kinds = {kind.value for kind in Kind if kind is not Kind.UNDECLARED}
    assert {kind for kind in kinds if f"**`{kind}`**" not in page} == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.line))
def test_an_example_of_a_schema_can_be_read_and_written(example):
    schema = Schema.from_toml(example.body)
    assert Schema.from_toml(schema.to_toml()) == schema


def test_every_key_is_shown_in_an_example_but_those_that_threea_writes():
    shown = "\n".join(example.body for example in EXAMPLES)
    unseen = {key for key in known_keys() if not re.search(rf"^\[*{key}\b", shown, re.MULTILINE)}
    assert unseen == {"origin", "release", "as_read"}


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = {path.split(".")[-1] for path in re.findall(r"^::: (\S+)", text, re.MULTILINE)}
    within = set(re.findall(r"\w+", " ".join(re.findall(r"members: \[(.*)\]", text))))
    assert set(threea.__all__) - named - within == set()
    proven = {RECIPES[name].__name__ for name in RECIPES if "published" not in name and name != "adsgan"}
    assert proven - named == set()


def test_every_recipe_has_a_line_on_the_page_of_recipes():
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"^\| (`[^|]+) \|", page.partition("## Each recipe")[2], re.MULTILINE))
    assert {name for name in RECIPES if f"`{name}`" not in lines} == set()


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in check.pages(ROOT) if ROOT / "docs" in page.parents}
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    listed = set(re.findall(r"([\w/.-]+\.md)$", menu, re.MULTILINE))
    assert (
        pages | notebooks | {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/results/index.md"} == listed
    )


def test_the_afternoons_reading_is_all_that_sees_rows():
    page = (ROOT / "docs" / "audit-in-an-afternoon.md").read_text(encoding="utf-8")
    seeing = [path for folder in ("anonymize", "backends") for path in (ROOT / "src" / "threea" / folder).glob("*.py")]
    assert {path.name for path in seeing if f"`{path.name}`" not in page} == {"__init__.py"}


@pytest.mark.parametrize(
    ("page", "link", "led"),
    [
        ("score.md", "../benchmarks/results/score.json", "benchmarks/results/score.json"),
        ("proofs/units.md", "../scale.md", "../scale.md"),
        ("faq.md", "../SECURITY.md", "SECURITY.md"),
        ("SECURITY.md", "docs/promise.md", "promise.md"),
        ("benchmarks.md", "../benchmarks/results/", "benchmarks/results/index.md"),
        ("index.md", "notebooks/steward.ipynb", "notebooks/steward.md"),
        ("index.md", "no/such/page.md", "no/such/page.md"),
    ],
)
def test_links_of_the_repository_lead_to_the_same_on_the_site(page, link, led):
    assert links.with_links(f"[x]({link}) [x]({link}#part)\n", page) == f"[x]({led}) [x]({led}#part)\n"
    code = f"```text\n[x]({link})\n```"
    assert links.with_links(code, page) == code
