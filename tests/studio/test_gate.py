"""Nobody gets in but the browser with the one-time link, from the studio's own pages. Each attack is tried."""

import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from threea.errors import SettingError
from threea.studio import app, gate, jobs, server, table_pages
from threea.studio.folder import Folder
from threea.studio.gate import COOKIE, HEADERS, POLICY

PAGES = Path(app.__file__).parent / "pages"
ORIGIN = "http://127.0.0.1:4711"


def test_it_listens_on_the_loopback_address_alone_and_on_a_free_port():
    with server.listening() as first, server.listening() as second:
        assert first.getsockname()[0] == second.getsockname()[0] == "127.0.0.1"
        assert first.getsockname()[1] != second.getsockname()[1]


def test_the_link_opens_once_and_gives_a_strict_cookie_for_its_own_path(visitor):
    keys = visitor.studio.keys
    assert visitor.get().status_code == 200
    visitor.client.cookies.clear()
    assert visitor.enter().status_code == 403
    keys.entered = False
    assert visitor.client.get(f"{keys.base}/", params={"token": keys.token[:-1] + "x"}).status_code == 403
    assert not keys.entered
    cookie = visitor.enter().headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}={keys.session};")
    said = {part.strip().lower() for part in cookie.split(";")[1:]}
    # Cookies know no ports: under another path, a program on another port would be sent it.
    assert said == {"httponly", "samesite=strict", f"path={keys.base.lower()}/"}
    assert len(keys.base) >= 16
    assert keys.token not in repr(keys)
    assert keys.session not in repr(keys)


def test_without_the_cookie_no_page_and_no_form_answers(visitor):
    visitor.client.cookies.clear()
    for path in app.PAGES:
        assert visitor.get(path[1:]).status_code == 403
    for path in app.FORMS:
        assert visitor.post(path[1:]).status_code == 403
    wrong = {"cookie": f"{COOKIE}={visitor.studio.keys.session[:-1]}x"}
    assert visitor.get(headers=wrong).status_code == 403
    assert visitor.client.get("/").status_code == 404


@pytest.mark.parametrize("host", ["evil.example:4711", "localhost:4711", "127.0.0.1", "127.0.0.1:80", "0.0.0.0:4711"])
def test_a_name_that_was_made_to_point_here_is_refused(visitor, host):
    answer = visitor.get(headers={"host": host})
    assert answer.status_code == 421
    assert "stays" not in answer.text
    assert visitor.post("open", {"source": "demo"}, headers={"host": host, "origin": ORIGIN}).status_code == 421
    assert not visitor.studio.tables


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_the_browser_says_another_site_or_port_sent_is_refused(visitor, site):
    assert visitor.get(headers={"sec-fetch-site": site}).status_code == 403
    sent = {"sec-fetch-site": site, "origin": ORIGIN}
    assert visitor.post("open", {"source": "demo"}, headers=sent).status_code == 403
    assert not visitor.studio.tables
    assert visitor.get(headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_form_from_another_origin_is_refused(visitor):
    for origin in ({"origin": "http://127.0.0.1:4712"}, {"origin": "http://evil.example"}, {"origin": "null"}, {}):
        assert visitor.post("open", {"source": "folder", "path": "stays.csv"}, headers=origin).status_code == 403
    assert not visitor.studio.tables
    without_referrer = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert visitor.post("open", {"source": "folder", "path": "stays.csv"}, headers=without_referrer).status_code == 200
    assert len(visitor.studio.tables) == 1


def test_a_form_without_this_sessions_secret_is_refused(visitor, monkeypatch):
    table = visitor.open("stays.csv")
    monkeypatch.setattr(jobs.Job, "start", lambda self, order: None)
    job = jobs.Job(task="release", title="stays", subject="stays")
    visitor.studio.jobs.start(job, {})
    before = dict(visitor.studio.tables)
    for path in app.FORMS:
        address = path[1:].format(table=table, job=job.id)
        for data in ({}, {"csrf": visitor.studio.keys.session}):
            answer = visitor.post(address, data, csrf=False)
            assert answer.status_code == 403, path
            assert "not made by the studio" in answer.text
    assert visitor.studio.tables == before
    assert not job.stopping


def test_every_answer_carries_the_headers_and_no_page_has_a_script_or_style_of_its_own(visitor):
    table = visitor.open("stays.csv")
    answers = [visitor.get(), visitor.get(f"table/{table}"), visitor.get("ledger"), visitor.get("studio.css")]
    answers += [visitor.get("nowhere"), visitor.get(headers={"host": "x"}), visitor.client.get("/"), visitor.enter()]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
    ):
        assert part in POLICY
    assert "unsafe" not in POLICY
    for page in PAGES.glob("*.html.j2"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?://", text), page.name
        assert all("src=" in script for script in re.findall(r"<script[^>]*>", text))
        assert "| safe" not in text
        for form in re.findall(r"<form[^>]*>.*?</form>", text, re.DOTALL):
            assert 'method="post"' in form
            assert "secret()" in form or 'name="csrf"' in form, page.name


def test_a_report_is_shown_without_scripts_and_with_an_origin_of_its_own(visitor):
    release = visitor.folder / "release"
    release.mkdir()
    (release / "certificate.json").write_text('{"guarantee": "<script>alert(1)</script>"}')
    (release / "report.html").write_text("<script>fetch('/')</script>")
    answer = visitor.get("release/file?folder=release&name=report.html")
    policy = answer.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "allow-scripts" not in policy
    assert "allow-same-origin" not in policy
    assert policy.startswith("default-src 'none'")
    assert "<script>alert" not in visitor.get("release?folder=release").text


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_beyond_the_limit_is_refused_whatever_length_it_announces(visitor, monkeypatch, announced):
    monkeypatch.setattr(gate, "LARGEST_UPLOAD", 10_000)
    head = (
        f'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{visitor.studio.keys.form}\r\n'
        '--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nupload\r\n'
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    )
    body = [head.encode(), *([b"a,b\n1,2\n" * 100] * 20), b"\r\n--x--\r\n"]
    headers = {"origin": ORIGIN, "content-type": "multipart/form-data; boundary=x"}
    content = b"".join(body) if announced else iter(body)
    answer = visitor.client.post(visitor.studio.url("open"), content=content, headers=headers)
    assert answer.status_code == 413
    assert not visitor.studio.tables
    assert not list(visitor.uploads.iterdir())


def test_an_upload_is_kept_where_its_owner_alone_may_read_it_and_removed_in_the_end(visitor):
    with server.private_folder() as uploads:
        visitor.studio.uploads = uploads
        file = ("../../stays.csv", (visitor.folder / "stays.csv").read_bytes())
        assert visitor.post("open", {"source": "upload"}, files={"file": file}).status_code == 200
        (table,) = visitor.studio.tables.values()
        assert table.path.is_relative_to(uploads)
        assert table.path.name == "stays.csv"
        assert uploads.stat().st_mode & 0o077 == 0
        assert table.path.parent.stat().st_mode & 0o077 == 0
    assert not uploads.exists()


@pytest.fixture
def links(visitor):
    """Lay ways out of the folder: a link to a file, to a folder, and a chain of them."""
    outside = visitor.folder.parent / "outside"
    outside.mkdir()
    (outside / "stays.csv").write_bytes((visitor.folder / "stays.csv").read_bytes())
    (outside / "certificate.json").write_text("{}")
    (outside / "schema.toml").write_text("confirmed = true\n")
    (visitor.folder / "link.csv").symlink_to(outside / "stays.csv")
    (visitor.folder / "door").symlink_to(outside)
    (visitor.folder / "chain").symlink_to(visitor.folder / "door")
    return ["../outside/stays.csv", str(outside / "stays.csv"), "link.csv", "door/stays.csv", "chain/stays.csv", ".."]


def test_no_path_leads_out_of_the_folder(visitor, links):
    for path in links:
        answer = visitor.post("open", {"source": "folder", "path": path})
        assert answer.status_code == 422
        assert "must lead to something in the studio" in answer.text
    assert not visitor.studio.tables
    folder = Folder.at(visitor.folder)
    assert folder.tables() == ["stays.csv"]
    assert folder.releases() == folder.schemas() == []
    for address in ("release?folder=../outside", "release?folder=door", "evaluate?folder=chain"):
        assert visitor.get(address).status_code == 422
    for name in ("../stays.csv", "stays.csv", "report.html"):
        assert visitor.get(f"release/file?folder=.&name={name}").status_code == 422
    (visitor.folder / "certificate.json").write_text("{}")
    beside = visitor.post("evaluate", {"folder": ".", "train": "stays.csv", "holdout": "stays.csv"})
    assert "must lead to something in the studio" in beside.text
    (visitor.folder / "certificate.json").unlink()
    table = visitor.described()
    for name in ("out", "new_ledger"):
        form = {"epsilon": "1", "delta": "1e-6", "adjacency": "add-remove", "recipe": "independent", "form": "csv"}
        form |= {"dataset": "stays", "ledger": "new", "new_ledger": "l.db", "out": "o", "max_rows_per_unit": "1"}
        answer = visitor.post(f"table/{table}/budget", {**form, name: "../outside/new", "act": "receipt"})
        assert answer.status_code == 422
        assert "must lead to something in the studio" in answer.text
    chosen = {"target": "died", "how": "file", "schema": "door/schema.toml"}
    assert visitor.post(f"table/{table}/describe", chosen).status_code == 422


def test_nothing_of_an_error_or_a_request_is_logged_or_shown(visitor, monkeypatch, caplog, capfd):
    def broken(*_):
        raise ValueError("VERY-PRIVATE")

    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(table_pages, "preview", broken)
    answer = visitor.post("open", {"source": "folder", "path": "stays.csv"})
    assert answer.status_code == 500
    assert "internal error: ValueError at test_gate.py" in answer.text
    assert "VERY-PRIVATE" not in answer.text
    logged = "".join(record.getMessage() for record in caplog.records if record.name != "httpx2")
    assert "VERY-PRIVATE" not in logged
    assert visitor.studio.keys.base not in logged
    assert capfd.readouterr() == ("", "")
    config = server.make_server(visitor.studio, 4711).config
    assert config.access_log is False
    assert not logging.getLogger("uvicorn").isEnabledFor(logging.CRITICAL)


def test_two_jobs_on_one_dataset_are_refused_and_on_two_are_not(monkeypatch):
    monkeypatch.setattr(jobs.Job, "start", lambda self, order: None)
    at_work, made = jobs.Jobs(), [jobs.Job(task="release", title=t, subject=t) for t in ("stays", "stays", "other")]
    at_work.start(made[0], {})
    with pytest.raises(SettingError, match="another job is at work on stays"):
        at_work.start(made[1], {})
    at_work.start(made[2], {})
    made[0].outcome = "done"
    at_work.start(made[1], {})
    assert {job.id for job in at_work.running} == {made[1].id, made[2].id}


@pytest.mark.parametrize(
    ("said", "fate"),
    [('{"stage": "half', "nothing was charged"), ('{"receipt": "all of it"}', "what was charged stays charged")],
)
def test_a_job_that_is_killed_says_what_may_have_become_of_the_charge(tmp_path, monkeypatch, said, fate):
    worker = tmp_path / "worker"
    worker.write_text(f"#!/bin/sh\necho 'not json'\necho '{said}'\nkill -9 $$\n")
    worker.chmod(0o700)
    monkeypatch.setattr(jobs.sys, "executable", str(worker))
    job = jobs.Job(task="release", title="stays", subject="stays")
    job.start({})
    job.wait(60)
    end = time.monotonic() + 60
    while not job.outcome and time.monotonic() < end:
        time.sleep(0.01)
    assert (job.outcome, job.message) == ("failed", f"no result was written; {fate}")


def test_ended_by_a_signal_the_command_removes_all_it_kept_and_logs_nothing(tmp_path):
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "threea", "studio", "--folder", str(tmp_path), "--no-browser"]
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        lines = [run.stdout.readline() for _ in range(3)]
        assert re.fullmatch(r"  http://127\.0\.0\.1:\d+/[\w-]{16}/\?token=[\w-]{43}\n", lines[1])
        assert len(list((tmp_path / "tmp").iterdir())) == 1
        run.send_signal(signal.SIGTERM)
        rest = run.communicate(timeout=60)
    assert (run.returncode, rest) == (0, ("", ""))
    assert list((tmp_path / "tmp").iterdir()) == []
