"""The owner's browser, as a test client plays it."""

import re
from html.parser import HTMLParser

from starlette.testclient import TestClient

from threea.studio.app import make_app
from threea.studio.gate import Gate

PORT = 4711
ORIGIN = f"http://127.0.0.1:{PORT}"


class Fields(HTMLParser):
    """What a browser would send of the forms on a page: by name, as they stand."""

    def __init__(self, text):
        super().__init__()
        self.sent, self._select, self._area = {}, None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "input" and found.get("name"):
            if found.get("type") not in ("checkbox", "radio") or "checked" in found:
                self.sent[found["name"]] = found.get("value", "")
        elif tag == "select":
            self._select = found["name"]
        elif tag == "option" and self._select and ("selected" in found or self._select not in self.sent):
            self.sent[self._select] = found.get("value", "")
        elif tag == "textarea":
            self._area = found["name"]
            self.sent[self._area] = ""

    def handle_endtag(self, tag):
        self._select = None if tag == "select" else self._select
        self._area = None if tag == "textarea" else self._area

    def handle_data(self, data):
        if self._area:
            self.sent[self._area] += data


class Visitor:
    """The owner's browser, in."""

    def __init__(self, studio):
        self.studio = studio
        self.gate = Gate(make_app(studio), keys=studio.keys, port=PORT)
        self.client = TestClient(self.gate, base_url=ORIGIN)

    def enter(self):
        return self.client.get(self.studio.url(), params={"token": self.studio.keys.token})

    def get(self, path="", **options):
        return self.client.get(self.studio.url(path), **options)

    def post(self, path, data=None, csrf=True, headers=None, **options):
        sent = {**({"csrf": self.studio.keys.form} if csrf else {}), **(data or {})}
        origin = {"origin": ORIGIN} if headers is None else headers
        return self.client.post(self.studio.url(path), data=sent, headers=origin, **options)

    def open(self, path):
        assert self.post("open", {"source": "folder", "path": path}).url.path != self.studio.url("open")
        return list(self.studio.tables)[-1]

    def described(self, path="stays.csv", **more):
        """Open a table, and confirm what is proposed of it."""
        table = self.open(path)
        chosen = {"target": "died", "unit": "patient_id", "how": "propose", **more}
        form = fields(self.post(f"table/{table}/describe", chosen))
        named = re.search(r'name="as_read" value="([^"]*)"', self.get(f"table/{table}/schema").text)
        ticks = {"as_read": named[1].replace("&#34;", '"') if named else "", "public": "yes"}
        assert self.post(f"table/{table}/schema", {**form, **ticks}).url.path.endswith("/budget")
        return table


def fields(answer):
    return Fields(answer.text).sent


def problem(answer):
    """Return what a page complains of."""
    found = re.search(r'role="alert".*?<p>(.*?)</p>', answer.text, re.DOTALL)
    return found and found[1].replace("&#39;", "'")
