"""The receipt: what a release will ask and cost, in words, before anything is spent. Made from public facts alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from threea.anonymize.accountant import Line
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.plan import Plan
from threea.budget import Adjacency
from threea.certificate import Guarantee
from threea.cost import Cost
from threea.describe import ids
from threea.drawing import MOST, SAME, least_rows
from threea.framework import Recipe
from threea.report import words
from threea.table.schema import Kind, Origin, Schema

_BALANCED = (
    f"Classes are not drawn in their private ratio: none more than {MOST:g} times as often as the rarest. The"
    " certificate gives each class the weight that undoes it."
)


def receipt(
    recipe: Recipe,
    reason: str,
    table: PrivateTable,
    plan: Plan,
    rows: int | str | None,
    balance: bool = False,
    cost: Cost | None = None,
    notes: Sequence[str] = (),
    protects: str = "",
) -> str:
    """Return the receipt as lines of text; `protects` says whom it protects where the table's unit does not say all."""
    budget, schema = plan.budget, table.schema
    promise = f"epsilon {budget.epsilon:g}, delta {budget.delta:g}, {budget.adjacency}"
    head = [f"Recipe {recipe.name} for {task(schema)}: {promise}.", *_sentences(recipe, table, rows, balance, protects)]
    if reason:
        head.append(f"It was {reason}.")
    if cost is not None:
        head.append(f"It takes {cost.described}.")
    if budget.delta and plan.lines and all(isinstance(line.event, Pure) for line in plan.lines):
        head.append("Nothing here needs a delta: with --delta 0 the promise is pure epsilon.")
    return "\n".join([*head, *notes, *_table(plan.lines)])


def task(schema: Schema) -> str:
    """Name the target and what is to be learned of it.

    Example:
        >>> from threea import hospital
        >>> task(hospital.schema())
        'died (2 classes)'
    """
    if schema.target is None:
        return "no target"
    target = schema[schema.target]
    name = words.shown(target.name)
    if schema.origin is Origin.TYPES and target.kind is Kind.INTEGER and not schema.number_target:
        return f"{name} (classes or a number, to be found)"
    if target.kind.numeric:
        return f"{name} (a number)"
    if schema.origin is Origin.TYPES and not target.categories:
        return f"{name} (classes, to be found)"
    count = len(target.categories) + target.open_ended
    return f"{name} ({count} class{'es' if count != 1 else ''})"


def _sentences(
    recipe: Recipe, table: PrivateTable, rows: int | str | None, balance: bool, protects: str
) -> Iterator[str]:
    budget, unit = table.budget, table.unit
    if recipe.guarantee is not Guarantee.PROVEN:
        yield f"Its guarantee is {recipe.guarantee}, not proven: see the assumptions in the certificate."
    if not budget.delta:
        yield "Delta is 0: pure epsilon, by Laplace noise and private choices alone."
    weak = words.weakness(budget.epsilon, budget.delta)
    if weak:
        yield f"Warning: {weak}"
    untouched = words.untouched(table.schema.untouched, len(table.schema.columns))
    if untouched:
        yield f"Warning: {untouched}"
    if balance:
        yield _BALANCED
    if protects:
        yield protects
    elif unit.column is None:
        yield "Each row is protected by itself; if a person has several, name their column with --unit."
    else:
        single = unit.max_rows == 1
        counted = "a single one counts; for more, --max-rows-per-unit" if single else f"at most {unit.max_rows} count"
        yield f"Each {words.shown(unit.column)} is protected, of whose rows {counted}."
    if table.budget.adjacency is Adjacency.REPLACE:
        yield "Under replace, the number of rows is taken as public."
    likely = ids.likely(table.schema) if table.schema.origin is Origin.TYPES else ()
    if likely:
        yield (
            f"Named as ids are: {', '.join(words.shown(name) for name in likely)}. Unless the noisy counts show values"
            " that many rows share, they are replaced by made-up ids; for anything else, give a schema."
        )
    if rows is None and not recipe.fixed:
        yield (
            f"Synthetic rows: the noisy count of private rows, and at least {least_rows(len(table.layout)):,}"
            " (free, and learners gain); for another number, --rows N or --rows same."
        )
    rules = [f"{words.shown(rule, words.LONG)} ({how})" for rule, how in table.schema.kept_rules]
    if rules:
        yield f"Every synthetic row keeps {len(rules)} rule{'s' if len(rules) > 1 else ''}: {'; '.join(rules)}."
    if rows == SAME:
        yield "Synthetic rows: as many as the noisy count of private rows that count."


def _table(lines: tuple[Line, ...]) -> list[str]:
    """Set the plan's lines as a table."""
    head = ("question", "share of budget", "event", "")
    body = [(line.name, f"{100 * line.share:.0f}%", type(line.event).__name__, _times(line.count)) for line in lines]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in (head, *body)
    ]


def _times(count: int) -> str:
    return "" if count == 1 else f"{count} times"
