"""A release of two tables: a model of the parents, a model of their children given them. Plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from threea import publish
from threea.anonymize.open_tables import protects
from threea.approximate.conditional_net import ConditionalNetModel
from threea.certificate import Certificate, Guarantee
from threea.errors import SettingError
from threea.linked import writing
from threea.model_file import blamed
from threea.place import Place
from threea.pricing import check_numbers
from threea.release import Release, sampling_seed
from threea.ruled import Ruled
from threea.table import codec
from threea.table.dialect import Dialect
from threea.table.linked_columns import COUNT, PARENT
from threea.table.schema import Chunk, Schema
from threea.threads import in_order

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.backends.frames import Frame


@dataclass(frozen=True, kw_only=True)
class ChildTable:
    """What is known of the child table, and the model that its rows are drawn from.

    Args:
        recipe: The name of the recipe that made the model.
        settings: Its settings.
        share: Of the budget.
        read: How many children of a parent were read, at most.
        model: Draws children given their parent's columns.
        schema: The public description of the child table.
        layout: Its columns, as they are released.
        restore: As which kind of table rows are handed back.
        dialect: How the private CSV file is written; None if it came in another form.
    """

    recipe: str
    settings: Mapping[str, Any]
    share: float
    read: int
    model: ConditionalNetModel
    schema: Schema
    layout: pa.Schema
    restore: Frame
    dialect: Dialect | None

    def drawn(self, parents: Chunk, rng: np.random.Generator) -> Chunk:
        """Draw a child for each row of the parent's columns; one that breaks a rule of the schema is mended."""
        chunk = self.model.sample(parents, rng)
        return self._keeper.kept(chunk, rng) if self.schema.rules else chunk

    @cached_property
    def _keeper(self) -> Ruled:
        return Ruled(self.model, self.schema, self.layout)  # type: ignore[arg-type]  # it is asked for no more rows


@dataclass(frozen=True, kw_only=True)
class LinkedRelease:
    """Parents, and children that name one of them, drawn together.

    Guarantees:
        - Every child's key is that of one parent, and no two parents share a key. Keys are made up.
        - A parent has as many children as its drawn `COUNT` says, from none to `children_at_most`.

    Args:
        parents: The parents' release, with the plan, the events and the guarantee of both tables. Its schema has the
            number of children as a column, which is not written.
        children: The child table.
        key: The column that names a parent, in both.
        children_at_most: Up to how many children of a parent were counted, and are drawn.
    """

    parents: Release
    children: ChildTable
    key: str
    children_at_most: int

    @property
    def guarantee(self) -> Guarantee:
        """Of both tables together."""
        return self.parents.guarantee

    @property
    def rows(self) -> int:
        """How many parents there are."""
        return self.parents.rows

    @property
    def schema(self) -> Schema:
        """The parents' schema as it is released: without the number of children."""
        schema = self.parents.schema
        columns = tuple(column for column in schema.columns if column.name != COUNT)
        return replace(schema, columns=columns, target=None if schema.target == COUNT else schema.target)

    @property
    def frames(self) -> tuple[Any, Any]:
        """Parents and children, as the kinds of table that came in: the same ones each time."""
        return self._restored(self.batches())

    def sample(self, parents: int, seed: int | None = None) -> tuple[Any, Any]:
        """Draw other parents than the release's own, with children of theirs.

        Cost:
            Nothing: it is post-processing of answers that were paid for.

        Args:
            parents: How many. Their children come with them.
            seed: Makes it repeatable.

        Returns:
            Parents and children, as the kinds of table that came in.

        Raises:
            SettingError: There are no so many keys of the key's type.
        """
        check_numbers(parents, seed)
        check_keys(parents, self.key, self.parents.layout, self.children.layout)
        return self._restored(self.draws(parents, seed))

    def draws(self, parents: int, seed: int | None = None) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Draw parents and their children chunk by chunk, as `sample` does."""
        return replace(self, parents=replace(self.parents, rows=parents, seed=sampling_seed(seed))).batches()

    def _restored(self, drawn: Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]) -> tuple[Any, Any]:
        import pyarrow as pa

        pairs = list(drawn)
        parents = pa.Table.from_batches([above for above, _ in pairs], schema=self.parents.layout)
        children = pa.Table.from_batches([below for _, below in pairs], schema=self.children.layout)
        return self.parents.restore(parents, self.schema), self.children.restore(children, self.children.schema)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Draw the parents chunk by chunk, each chunk with its children."""
        with blamed(self.parents.file):
            yield from self._decoded()

    def _decoded(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        first, first_child = 0, 0
        for parents, children, place in in_order(self._with_children, enumerate(self.parents.chunks())):
            above = codec.decode(parents, self.parents.schema, self.parents.layout, first)
            keys = {self.key: first + 1 + place}
            below = codec.decode(children, self.children.schema, self.children.layout, first_child, keys)
            yield above, below
            first, first_child = first + above.num_rows, first_child + below.num_rows

    def _with_children(self, numbered: tuple[int, Chunk]) -> tuple[Chunk, Chunk, NDArray[np.int64]]:
        """Draw children for a chunk of parents; return both, and each child's parent."""
        number, parents = numbered
        counts = np.clip(np.rint(parents[COUNT]), 0, self.children_at_most).astype(np.int64)
        place = np.repeat(np.arange(len(counts)), counts)
        given = {f"{PARENT}{name}": values[place] for name, values in parents.items()}
        # Another stream than that of the parents themselves.
        rng = np.random.default_rng([self.parents.seed, number, 1])
        return parents, self.children.drawn(given, rng), place

    def certificate(
        self, parents_sha256: str = "", children_sha256: str = "", model_sha256: str = "", children: int | None = None
    ) -> Certificate:
        """State what was released, under which guarantee, from which events: one certificate for both tables.

        Args:
            parents_sha256: Of the parents' rows.
            children_sha256: Of the children's.
            model_sha256: Of the model.
            children: How many children were drawn.
        """
        stated = replace(self.parents, schema=self.schema).certificate(parents_sha256, model_sha256)
        own = self.children
        return replace(
            stated,
            unit=protects(self.key, self.children_at_most, own.read),
            max_rows_per_unit=own.read,
            children={
                "key": self.key,
                "children_at_most": self.children_at_most,
                "children_read": own.read,
                "share_of_budget": own.share,
                "recipe": own.recipe,
                "settings": dict(own.settings),
                "rows": children,
                "schema_origin": own.schema.provenance,
                "schema_untouched": list(own.schema.untouched),
                "schema_rules": [{"rule": rule, "kept": how} for rule, how in kept_rules(own.schema)],
                "schema_sha256": hashlib.sha256(self.child_schema_text(children_sha256).encode()).hexdigest(),
                "synthetic_sha256": children_sha256,
            },
        )

    def schema_text(self, parents_sha256: str = "") -> str:
        """Return the parents' schema as it is written."""
        return replace(self.parents, schema=self.schema).schema_text(parents_sha256)

    def child_schema_text(self, children_sha256: str = "") -> str:
        """Return the child table's schema as it is written."""
        return self.children.schema.to_toml(release=children_sha256)

    def save(
        self, out: str | PathLike[str] | Place, form: str | None = None, *, spreadsheet_safe: bool = False
    ) -> list[Path]:
        """Write both tables, their schemas, certificate, report and model to a new folder; return the files made.

        Args:
            out: A new or empty folder, or one claimed before (`publish.claim`), whose format is known then.
            form: ``parquet`` or ``csv``; by default the form in which the parents came, Parquet for frames.
            spreadsheet_safe: Of CSV, whether text that a spreadsheet might run gets an apostrophe before it.

        Raises:
            SettingError: It cannot be written there. Saving again elsewhere costs nothing.
        """
        form = publish.form_of(self.parents.dialect) if form is None else form
        publish.check_format(form, spreadsheet_safe=spreadsheet_safe)
        place = out if isinstance(out, Place) else publish.claim(out, form)
        return writing.write(replace(self, parents=replace(self.parents, spreadsheet_safe=spreadsheet_safe)), place)


def kept_rules(schema: Schema) -> list[tuple[str, str]]:
    """Return what each rule of a child table says, and how a release keeps it: children are not drawn again."""
    return [(rule, how.replace("redraws", "mending")) for rule, how in schema.kept_rules]


def check_keys(parents: int, key: str, *layouts: pa.Schema) -> None:
    """Refuse more parents than there are different keys.

    Raises:
        SettingError: There are.
    """
    most = most_keys(key, *layouts)
    if parents > most:
        raise SettingError(f"rows ({parents}) must be at most {most:,}: column {key} has no more different keys")


def most_keys(key: str, *layouts: pa.Schema) -> int:
    """Return how many keys can be made up, of the types that the column has in both tables."""
    return min(codec.surrogates(layout.field(key).type) for layout in layouts)
