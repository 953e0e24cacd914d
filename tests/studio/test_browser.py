"""The studio in a real browser: the whole path, with a mouse, on a phone without scripts, in two tabs, under attack."""

import http.server
import shutil
import threading
import time

import pyarrow.csv
import pytest

from threea import hospital
from threea.ledger import Ledger
from threea.studio.folder import Folder
from threea.studio.gate import Keys
from threea.studio.server import entry_page, listening, make_server, private_folder
from threea.studio.state import Studio

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to drive")
FLAGS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
PATIENCE = 120_000
"""Milliseconds to wait for a page on a busy machine."""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("studio")
    stays = hospital.stays(1_000).select(["patient_id", "ward", "age", "cost", "died"])
    pyarrow.csv.write_csv(stays, path / "stays.csv", pyarrow.csv.WriteOptions(delimiter=";"))
    (path / "broken.csv").write_text("name,age\nVERY-PRIVATE,3\n1,2,3\n")
    return path


@pytest.fixture(scope="module")
def served(folder):
    with private_folder() as uploads, listening() as listener:
        studio = Studio(folder=Folder.at(folder), uploads=uploads, keys=Keys())
        port = listener.getsockname()[1]
        server = make_server(studio, port)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        studio.address = f"http://127.0.0.1:{port}{studio.keys.base}/"
        yield studio
        studio.jobs.stop()
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def enter(browser, served):
    """Return a function that opens a browser's window in the studio; nothing may break the policy on the way."""
    opened, refused = [], []

    def entered(width=1280, **options):
        served.keys.entered = False
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        opened.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda told: refused.append(told.text) if "Content Security" in told.text else None)
        page.on("pageerror", lambda error: refused.append(str(error)))
        page.goto(f"{served.address}?token={served.keys.token}")
        page.wait_for_url(served.address)
        return page

    yield entered
    for context in opened:
        context.close()
    assert refused == []


def fits(page):
    """Whether a page is no wider than the window, and all of its fields have names that are read out."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    nameless = page.evaluate(
        """[...document.querySelectorAll("input:not([type=hidden]),select,textarea")]
           .filter(field => !field.labels.length && !field.ariaLabel).length"""
    )
    single = page.evaluate("document.querySelectorAll('main').length == 1 && document.querySelectorAll('h1').length")
    return (wide, nameless, single) == (0, 0, 1)


def press(page, name):
    page.get_by_role("button", name=name).first.click()


def to_budget(page, table, **described):
    press(page, table)
    for label, value in described.items():
        page.get_by_label(label).select_option(value)
    press(page, "Go on")
    # The next page must be there before what is on it is counted.
    page.get_by_label("I confirm").wait_for()
    if page.get_by_label("Still as read").count():
        page.get_by_label("Still as read").check()
    page.get_by_label("I confirm").check()
    press(page, "Confirm and go on")
    page.get_by_role("heading", name="How much privacy to spend").wait_for()


def test_the_whole_path_on_the_simulated_table(enter, served, folder):
    page = enter()
    assert fits(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    to_budget(page, "Try the simulated table")
    assert fits(page)
    page.locator("#epsilon").fill("3")
    press(page, "Show what it means")
    assert "95.3%" in page.text_content("#meaning")
    press(page, "Show the receipt")
    assert "Recipe labeltree for died (2 classes): epsilon 3" in page.text_content("pre")
    assert fits(page)
    press(page, "Spend it")
    assert page.locator("#stage").get_attribute("aria-live") == "polite"
    # Nothing but the script can bring the end: with scripts, the page does not load itself anew.
    page.get_by_role("heading", name="Done").wait_for()
    page.get_by_role("link", name="Look at the release").click()
    assert "guarantee: proven" in page.text_content("main")
    assert fits(page)
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Open the report").click()
    popup.value.locator("h1").wait_for()
    assert popup.value.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(245, 247, 249)"
    with page.expect_download() as download:
        press(page, "Draw and download")
    assert download.value.suggested_filename == "demo-release-more.parquet"
    assert (folder / "demo-release" / "certificate.json").is_file()
    page.get_by_role("link", name="Ledger").click()
    assert "simulated hospital stays" in page.text_content("main")
    assert fits(page)


def test_a_file_of_ones_own_on_a_phone_without_scripts_in_the_dark(enter, folder):
    page = enter(width=375, java_script_enabled=False, color_scheme="dark")
    page.set_input_files("#file", folder / "stays.csv")
    page.locator("form", has=page.locator("#file")).locator("button").click()
    assert "Private: for your eyes" in page.text_content("main")
    page.get_by_label("Target").select_option("died")
    press(page, "Go on")
    page.get_by_label("Still as read").check()
    page.get_by_label("I confirm").check()
    press(page, "Confirm and go on")
    page.get_by_label("None: this spending").check()
    page.get_by_text("More choices").click()
    page.get_by_label("Recipe", exact=True).select_option("independent")
    page.get_by_label("Folder for it").fill("own")
    press(page, "Show the receipt")
    assert "No ledger given" in page.text_content("pre")
    press(page, "Spend it")
    page.get_by_role("heading", name="Done").wait_for()
    assert (folder / "own" / "synthetic.csv").is_file()


@pytest.mark.parametrize("width", [375, 1280])
def test_a_broken_file_is_told_where_a_screen_reader_hears_it(enter, width):
    page = enter(width=width)
    press(page, "broken.csv")
    alarm = page.get_by_role("alert")
    assert "more or fewer values than the header" in alarm.text_content()
    page.locator("[role=alert]:focus").wait_for()
    assert "VERY-PRIVATE" not in page.content()
    assert fits(page)


def test_a_budget_that_the_cap_does_not_cover_is_refused(enter, folder):
    with Ledger(folder / "tight.db", create=True) as book:
        book.register("tight", lambda key: "rows", cap=0.5)
    page = enter(width=375)
    to_budget(page, "stays.csv", Target="died")
    page.get_by_label("tight.db").check()
    assert "left 0.5" in page.text_content("main")
    page.get_by_label("Name of the dataset").fill("tight")
    press(page, "Show the receipt")
    assert "requested epsilon 1, spent 0 of 0.5, left 0.5" in page.get_by_role("alert").text_content()
    assert page.get_by_label("Name of the dataset").input_value() == "tight"
    assert fits(page)


def test_two_tabs_run_one_release_and_it_can_be_stopped(enter, served, folder):
    page = enter()
    to_budget(page, "Try the simulated table")
    page.get_by_label("A new ledger").check()
    page.get_by_label("File of the new ledger").fill("tabs.db")
    page.get_by_label("Folder for it").fill("tabs")
    press(page, "Show the receipt")
    other = page.context.new_page()
    other.goto(page.url)
    third = page.context.new_page()
    third.goto(page.url.replace("/receipt", "/budget"))
    third.locator("#epsilon").fill("2")
    press(third, "Show the receipt")
    press(other, "Spend it")
    assert "changed in another tab" in other.get_by_role("alert").text_content()
    assert not served.jobs.running
    press(third, "Spend it")
    third.locator("#stage").wait_for()
    (job,) = served.jobs.running
    press(other, "Spend it")
    other.wait_for_url("**/budget")
    press(third, "Stop")
    third.get_by_role("heading", name="Stopped").wait_for()
    assert job.outcome == "stopped"
    assert "no result was written" in third.text_content("main")
    assert not (folder / "tabs").exists()


def test_the_page_that_is_opened_for_the_owner_leads_in(browser, served, tmp_path):
    served.keys.entered = False
    path = entry_page(f"{served.address}?token={served.keys.token}", tmp_path)
    assert path.stat().st_mode & 0o077 == 0
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_url(served.address)
    assert page.get_by_role("button", name="stays.csv").is_visible()
    context.close()


ATTACK = """<!DOCTYPE html><title>evil</title><body><script>
const at = %r, got = [];
const attempt = async (name, act) => {
  try { got.push([name, await act()]); } catch (error) { got.push([name, "refused"]); } };
(async () => {
  await attempt("read", async () => (await fetch(at, {credentials: "include"})).text());
  await attempt("send", async () => (await fetch(at + "open", {method: "POST", credentials: "include",
    headers: {"content-type": "application/x-www-form-urlencoded"}, body: "source=demo&csrf=%s"})).text());
  await attempt("blind", async () => (await fetch(at + "open", {method: "POST", mode: "no-cors", credentials: "include",
    body: new URLSearchParams({source: "demo", csrf: "%s"})})).type);
  await attempt("style", () => new Promise((done, fail) => { const link = document.createElement("link");
    link.rel = "stylesheet"; link.href = at + "studio.css"; link.onload = () => done("loaded"); link.onerror = fail;
    document.head.append(link); }));
  await attempt("script", () => new Promise((done, fail) => { const script = document.createElement("script");
    script.src = at + "progress.js"; script.onload = () => done("loaded"); script.onerror = fail;
    document.head.append(script); }));
  await attempt("events", () => new Promise((done, fail) => { const source = new EventSource(at + "job/x/events",
    {withCredentials: true}); source.onopen = () => done("open"); source.onerror = fail; }));
  await attempt("frame", () => new Promise((done, fail) => { const frame = document.createElement("iframe");
    frame.src = at; frame.onload = () => { try { done(frame.contentDocument.body.innerText || "blocked"); }
    catch (error) { fail(error); } }; document.body.append(frame); }));
  window.got = got;
})();
</script><form id="form" method="post" action="%sopen"><input name="source" value="demo"><input name="csrf" value="%s">
</form>"""


def test_a_page_of_another_port_can_neither_read_nor_start_anything(enter, served):
    page = enter()
    at, secret = served.address, served.keys.form
    # The worst case: it knows the address, and even the forms' secret. To browsers, another port is the same site.
    evil = (ATTACK % (at, secret, secret, at, secret)).encode()
    cookies = []

    class Evil(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            cookies.append(self.headers.get("cookie"))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(evil)

        def log_message(self, *_):
            pass

    before = dict(served.tables)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = page.context.new_page()
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        got = dict(tab.wait_for_function("window.got").json_value())
        assert set(got) == {"read", "send", "blind", "style", "script", "events", "frame"}
        assert set(got.values()) == {"refused"}, got
        tab.evaluate("document.getElementById('form').submit()")
        tab.wait_for_url(f"{at}open")
        assert tab.text_content("body") == "Pages of other sites may not ask here."
        # Not even a way in by a link: it comes from another page.
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.evaluate(f"location.href = {at!r}")
        tab.wait_for_url(at)
        assert tab.text_content("body") == "Pages of other sites may not ask here."
        server.shutdown()
    assert served.tables == before
    assert cookies
    assert set(cookies) == {None}
    page.reload()
    assert fits(page)
