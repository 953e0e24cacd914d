"""From a table to a release through the pages: what is asked of the owner, what is refused, and that it is all `session`'s."""

import html
import json
import re
import sys
import time
from dataclasses import replace

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from conftest_studio import fields, problem

from threea import cli, hospital, load_release
from threea.anonymize.ledger import Ledger
from threea.describe.propose_schema import propose_schema
from threea.errors import MissingExtra, SchemaError
from threea.evaluate import evaluation
from threea.session import rehearse
from threea.studio import choices, pictures, serve, work
from threea.studio.schema_form import ColumnForm
from threea.table.schema import Column, Kind, Schema


def budget_form(visitor, table, **changed):
    form = fields(visitor.get(f"table/{table}/budget"))
    return {**form, "recipe": "independent", "rows": "200", "act": "receipt", **changed}
