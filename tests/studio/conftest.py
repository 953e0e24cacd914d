"""A studio of a folder with one table, and its owner's browser."""

import pyarrow.csv
import pytest
from visiting import Visitor

from threea import hospital
from threea.studio.folder import Folder
from threea.studio.gate import Keys
from threea.studio.server import private_folder
from threea.studio.state import Studio


@pytest.fixture
def visitor(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    stays = hospital.stays(400).select(["patient_id", "admitted", "ward", "age", "cost", "died"])
    pyarrow.csv.write_csv(stays, folder / "stays.csv")
    with private_folder() as uploads:
        visitor = Visitor(Studio(folder=Folder.at(folder), uploads=uploads, keys=Keys()))
        visitor.folder, visitor.uploads = folder, uploads
        with visitor.client:
            assert visitor.enter().status_code == 200
            yield visitor
            visitor.studio.jobs.stop()
