"""Uploads that are made to do harm, that stop half-way, and two browsers at once: the studio goes on."""

import errno
import gzip
import hashlib
import json
import os
import socket
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workbook
from visiting import Visitor, fields, problem

import threea
from threea import hospital, model_file
from threea.studio import jobs, reading, table_pages
from threea.studio.folder import Folder
from threea.studio.gate import Keys
from threea.studio.server import listening, make_server, private_folder
from threea.studio.state import Studio

BOUNDARY = "boundary"


def corner(path):
    """Write a sheet with a value in its last corner, named as a check of its XML would not see it."""
    workbook.write(path, [["a", "b"], [1, 2]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            row = "<row r='1048576'><c r='XFD1048576'><v>1</v></c></row></sheetData>"
            archive.writestr(name, text.replace("</sheetData>", row))


def many_rows(path):
    with gzip.open(path, "wb", 1) as file:
        file.write(b"a,b\n")
        for _ in range(120):
            file.write(b"1,2\n" * (1 << 18))


def vast_values(path):
    """Write a Parquet file of a few kB whose every value is 64 MB of text."""
    values = pa.table({"a": pa.array(["y" * (1 << 26)]), "b": ["x"]})
    pq.write_table(pa.concat_tables([values] * 20), path, compression="zstd")


@pytest.mark.parametrize(
    ("name", "write"), [("far.xlsx", corner), ("rows.csv.gz", many_rows), ("vast.parquet", vast_values)]
)
def test_a_hostile_upload_is_refused_in_one_line_and_the_next_one_is_read(visitor, monkeypatch, name, write):
    monkeypatch.setattr(reading, "SECONDS", 3)
    monkeypatch.setattr(reading, "available_memory", lambda: 0.0)
    write(visitor.uploads / name)
    upload = {"file": (name, (visitor.uploads / name).read_bytes())}
    visitor.post("open", {"source": "upload"}, files=upload)
    (table,) = visitor.studio.tables
    answer = visitor.post(f"table/{table}/describe", {"target": "b", "unit": "", "how": "propose"})
    assert answer.status_code == 422
    assert f"{name} cannot be read" in problem(answer)
    assert "internal error" not in answer.text
    assert visitor.get(f"table/{visitor.open('stays.csv')}").status_code == 200


def test_rows_of_a_hostile_model_are_refused(visitor):
    made = threea.synthesize(hospital.stays(300), schema=hospital.schema(), epsilon=1.0, rows=20, recipe="labeltree")
    made.save(visitor.folder / "out")
    files = model_file._stored((visitor.folder / "out/model.threea").read_bytes())
    data = json.loads(files["release.json"])
    _vast_groups(data)
    hostile = model_file._sealed({**files, "release.json": json.dumps(data).encode()})
    (visitor.folder / "out/model.threea").write_bytes(hostile)
    certificate = json.loads((visitor.folder / "out/certificate.json").read_text())
    certificate["model_sha256"] = hashlib.sha256(hostile).hexdigest()
    (visitor.folder / "out/certificate.json").write_text(json.dumps(certificate))
    answer = visitor.post("release/rows", {"folder": "out", "rows": "10", "form": "csv", "conditions": ""})
    assert answer.status_code == 422
    assert "is damaged, or no model of threea" in problem(answer)


def _vast_groups(node):
    """Let the last group of every merged column be a number of ten digits."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _vast_groups(value)
    if isinstance(node, dict) and node.get("class") == "Merged":
        node["fields"]["groups"][-1] = 1 << 31


def test_a_full_disk_is_told_and_leaves_nothing(visitor, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(table_pages.shutil, "copyfileobj", full)
    answer = visitor.post("open", {"source": "upload"}, files={"file": ("t.csv", b"a,b\n1,2\n")})
    assert "the file cannot be kept: No space left on device" in problem(answer)
    assert not list(visitor.uploads.rglob("t.csv"))


def test_of_two_tabs_that_run_one_receipt_at_once_one_starts(visitor, monkeypatch):
    started = []
    monkeypatch.setattr(jobs.Job, "start", lambda job, order: started.append(order))
    table = visitor.described()
    chosen = {**fields(visitor.get(f"table/{table}/budget")), "ledger": "new", "act": "receipt"}
    assert visitor.post(f"table/{table}/budget", chosen).url.path.endswith("/receipt")
    receipt = visitor.studio.tables[table].receipt.digest
    with ThreadPoolExecutor(4) as tabs:
        list(tabs.map(lambda _: visitor.post(f"table/{table}/run", {"receipt": receipt}), range(4)))
    assert len(started) == 1


@pytest.fixture
def served(tmp_path):
    """A studio that listens, and what a browser that was let in sends with every request."""
    with private_folder() as uploads, listening() as listener:
        studio = Studio(folder=Folder.at(tmp_path), uploads=uploads, keys=Keys(entered=True))
        server = make_server(studio, listener.getsockname()[1])
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
        thread.start()
        yield studio, listener.getsockname()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def sent(studio, address, share):
    """Send a share of an upload; return the connection."""
    parts = {"csrf": studio.keys.form, "source": "upload"}
    text = "".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in parts.items()
    )
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n'
    body = f"{text}{file}a,b\n{'1,2' * 700_000}\r\n--{BOUNDARY}--\r\n".encode()
    host = f"{address[0]}:{address[1]}"
    head = [
        f"POST {studio.keys.base}/open HTTP/1.1",
        *(f"Host: {host}", f"Origin: http://{host}", f"Cookie: threea_studio={studio.keys.session}"),
        *(f"Content-Type: multipart/form-data; boundary={BOUNDARY}", f"Content-Length: {len(body)}"),
    ]
    connection = socket.create_connection(address, timeout=30)
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body[: int(share * len(body))])
    return connection


def test_uploads_that_stop_half_way_leave_no_file_and_no_handle(served):
    studio, address = served
    with sent(studio, address, 1.0) as whole:
        assert b" 303 " in whole.recv(100)
    before = len(os.listdir("/proc/self/fd"))
    halves = [sent(studio, address, 0.1 * (number % 9 + 0.5)) for number in range(20)]
    with sent(studio, address, 1.0) as whole:
        # Others that hang do not keep it waiting.
        assert b" 303 " in whole.recv(100)
    for half in halves:
        half.close()
    for _ in range(200):
        if len(os.listdir("/proc/self/fd")) <= before:
            break
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before
    assert len(list(studio.uploads.rglob("t.csv"))) == 2


def test_a_second_browser_with_the_link_is_turned_away_and_the_first_goes_on(visitor):
    second = Visitor(visitor.studio)
    with second.client:
        assert second.enter().status_code == 403
        assert second.get().status_code == 403
    assert visitor.get().status_code == 200
