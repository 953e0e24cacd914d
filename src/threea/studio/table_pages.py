"""From a file to a confirmed schema: open a table, see that it is read as meant, say what is public about it."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from threea.errors import SchemaError, SettingError, ThreeaError
from threea.studio.choices import dialect_said
from threea.studio.reading import preview, propose_schema, sheets_of
from threea.studio.rendering import page, read_form, redirect, run_in_threadpool, studio_of, table_of, text_of
from threea.studio.schema_form import KINDS, ColumnForm, read_columns
from threea.studio.state import OpenTable, Studio
from threea.table.dialect import Dialect
from threea.table.schema import Column, Schema

PUBLIC_BY_CODE = "made up by the program, which anyone may read"


async def home(request: Request) -> Response:
    """Show what is in the folder."""
    return await _home(request)


async def _home(request: Request, problem: Exception | None = None) -> Response:
    folder = studio_of(request).folder
    tables = await run_in_threadpool(folder.tables)
    return page(request, "home", problem=problem, tables=tables, releases=await run_in_threadpool(folder.releases))


async def open_table(request: Request) -> Response:
    """Open a table: of the folder, from the owner's own disk, or the simulated one."""
    studio = studio_of(request)
    form = await read_form(request)
    try:
        table = await run_in_threadpool(_opened, studio, form)
    except ThreeaError as error:
        return await _home(request, error)
    studio.keep(table)
    return redirect(request, f"table/{table.id}")


def _opened(studio: Studio, form: FormData) -> OpenTable:
    source = text_of(form, "source")
    if source == "demo":
        return _demo(studio)
    if source == "upload":
        return _uploaded(studio, form.get("file"))
    path = studio.folder.inside(text_of(form, "path"))
    if not path.exists():
        raise SettingError(f"path ({text_of(form, 'path')}) leads to nothing in the studio's folder; check it")
    return OpenTable(path=path, name=studio.folder.named(path), kind="folder")


def _uploaded(studio: Studio, file: object) -> OpenTable:
    if not isinstance(file, UploadFile) or not file.filename:
        raise SettingError("no file was chosen; choose one")
    name = Path(file.filename).name[-100:]
    if not name.isprintable() or name.startswith("."):
        raise SettingError("the file's name cannot be used; rename it")
    path = Path(tempfile.mkdtemp(dir=studio.uploads)) / name
    try:
        with path.open("xb") as copy:
            shutil.copyfileobj(file.file, copy)
    except OSError as error:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise SettingError(f"the file cannot be kept: {error.strerror}; put it into the studio's folder") from None
    return OpenTable(path=path, name=name, kind="upload")


def _demo(studio: Studio) -> OpenTable:
    import pyarrow.parquet

    from threea import hospital

    path = Path(tempfile.mkdtemp(dir=studio.uploads)) / "stays.parquet"
    pyarrow.parquet.write_table(hospital.stays(), path)
    schema = hospital.schema()
    return OpenTable(
        path=path,
        name="simulated hospital stays",
        kind="demo",
        target=schema.target,
        unit="patient_id",
        proposed=replace(schema, confirmed=False),
        sources=dict.fromkeys((column.name for column in schema.columns), PUBLIC_BY_CODE),
    )


async def show_table(request: Request) -> Response:
    """Show how a table is read, and ask what it is for."""
    return await _show_table(request, table_of(request))


async def _show_table(request: Request, table: OpenTable, problem: Exception | None = None) -> Response:
    seen, failure = None, problem
    try:
        seen = await run_in_threadpool(preview, table.path, table.dialect)
    except ThreeaError as error:
        failure = problem or error
    schemas = await run_in_threadpool(studio_of(request).folder.schemas)
    said = table.dialect or Dialect()
    shown: dict[str, Any] = {"table": table, "preview": seen, "said": said, "schemas": schemas}
    sheets = await run_in_threadpool(_sheets, table) if table.is_excel else None
    return page(request, "table", problem=failure, sheets=sheets, **shown)


def _sheets(table: OpenTable) -> list[str]:
    """Return the names of an Excel file's sheets; none if it cannot be read, which its preview tells."""
    try:
        return sheets_of(table.path)
    except ThreeaError:
        return []


async def read_table(request: Request) -> Response:
    """Read a CSV file otherwise."""
    table, form = table_of(request), await read_form(request)
    try:
        dialect = dialect_said(form)
    except ThreeaError as error:
        return await _show_table(request, table, error)
    studio_of(request).keep(table.reread(dialect))
    return redirect(request, f"table/{table.id}")


async def describe(request: Request) -> Response:
    """Take the target and the unit, and propose a schema, load one, or leave it to be found privately."""
    studio, table, form = studio_of(request), table_of(request), await read_form(request)
    try:
        table = await run_in_threadpool(_described, studio, table, form)
    except ThreeaError as error:
        return await _show_table(request, table, error)
    studio.keep(replace(table, confirmed=None, receipt=None, choices=None, noise=()))
    return redirect(request, f"table/{table.id}/{'budget' if table.discovers else 'schema'}")


def _described(studio: Studio, table: OpenTable, form: FormData) -> OpenTable:
    # As they are: a column's name may begin or end with a space.
    target, unit = (str(form.get(name) or "") or None for name in ("target", "unit"))
    how = text_of(form, "how")
    if target is not None and target == unit:
        raise SettingError(f"target ({target}) names the person, too; choose another")
    table = replace(table, target=target, unit=unit, discovers=False)
    if how == "discover":
        return replace(table, discovers=True)
    if how == "file":
        loaded = Schema.load(studio.folder.inside(text_of(form, "schema")))
        names = preview(table.path, table.dialect, rows=0).names
        missing = [column.name for column in loaded.columns if column.name not in names]
        if missing or len(loaded.columns) != len(names):
            raise SchemaError("the schema's columns are not the table's; choose another schema")
        return replace(table, proposed=replace(loaded, target=target, confirmed=False), notes={}, sources={})
    if table.kind == "demo" and table.proposed is not None:
        return replace(table, proposed=replace(table.proposed, target=target))
    proposed, notes = propose_schema(table.path, target, unit, table.dialect)
    return replace(table, proposed=proposed, notes=notes, sources={})


async def show_schema(request: Request) -> Response:
    """Show the proposed schema as a form."""
    table = table_of(request)
    if table.proposed is None:
        return redirect(request, f"table/{table.id}")
    shown = table.confirmed or table.proposed
    columns = [ColumnForm.of(column, table.sources.get(column.name, "")) for column in shown.columns]
    return _schema_page(request, table, columns)


def _schema_page(
    request: Request, table: OpenTable, columns: list[ColumnForm], problem: Exception | None = None, status: int = 200
) -> Response:
    assert table.proposed is not None
    by_name = {column.name: column for column in table.proposed.columns}
    untouched = [c.name for c in columns if by_name[c.name].as_read and _is_as_read(c, by_name[c.name])]
    shown = {"table": table, "columns": columns, "kinds": KINDS, "untouched": untouched, "named": json.dumps(untouched)}
    return page(request, "schema", status, problem=problem, **shown)


def _is_as_read(fields: ColumnForm, proposed: Column) -> bool:
    """Whether a column is still as it was read from the rows, and nobody has said where that is public."""
    try:
        column = fields.column(proposed)
    except SchemaError:
        return False
    return bool(column.as_read) and column.as_read == column.digest


async def confirm_schema(request: Request) -> Response:
    """Take the form: nothing is confirmed but by a tick, and by another that names what is still as read."""
    studio, table, form = studio_of(request), table_of(request), await read_form(request)
    if table.proposed is None:
        return redirect(request, f"table/{table.id}")
    columns, described = read_columns(form, table.proposed)
    sources = {column.name: column.source for column in columns if column.source}
    try:
        schema = _confirmed(form, table.proposed, columns, described)
    except ThreeaError as error:
        return _schema_page(request, replace(table, sources=sources), columns, error)
    studio.keep(replace(table, confirmed=schema, sources=sources, receipt=None, noise=()))
    return redirect(request, f"table/{table.id}/budget")


def _confirmed(form: FormData, proposed: Schema, columns: list[ColumnForm], described: list[Column]) -> Schema:
    wrong = [column.name for column in columns if column.problem]
    if wrong:
        raise SchemaError(f"{len(wrong)} of {len(columns)} columns cannot be as described; see each, marked below")
    schema = replace(proposed, columns=tuple(described), confirmed=True)
    if not form.get("public"):
        raise SchemaError("the schema is not confirmed as public; tick the box at the end once it is")
    if not set(schema.untouched) <= _ticked(text_of(form, "as_read")):
        count = f"{len(schema.untouched)} of {len(columns)} columns"
        raise SchemaError(
            f"{count} are still as read from the rows; edit them, say where they are public, or tick them"
        )
    return schema


def _ticked(text: str) -> set[str]:
    """Return the columns that a tick named; a box that was not ticked named none."""
    try:
        names = json.loads(text or "[]")
    except ValueError:
        names = []
    return {str(name) for name in names} if isinstance(names, list) else set()


async def schema_file(request: Request) -> Response:
    """Give the owner the schema as a file, with what they said of each column."""
    table = table_of(request)
    schema = table.confirmed or table.proposed
    if schema is None:
        return redirect(request, f"table/{table.id}")
    notes = {name: f"Public: {source}" for name, source in table.sources.items()}
    headers = {"content-disposition": 'attachment; filename="schema.toml"'}
    return Response(schema.to_toml(notes, marks=True), media_type="application/toml", headers=headers)
