#!/usr/bin/env python3
"""Tests the page of a study in headless Chromium. The test moves the pointer and presses keys.

Usage: page_test.py HEED_PAGE, where HEED_PAGE is the program built from page_main.cpp. The test needs chromium
and chromedriver (Debian's packages chromium and chromium-driver, or `tools/setup --all`). Without them the test
prints a note and is skipped. It uses only Python's standard library, because WebDriver is JSON over HTTP
(https://www.w3.org/TR/webdriver2/).
"""
import base64
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}


class Browser:
    """A headless Chromium that is controlled through chromedriver."""

    def __init__(self, chromium, chromedriver, profile):
        self.driver = subprocess.Popen([chromedriver, "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        self.session = None
        for line in self.driver.stdout:
            port = re.search(r"started successfully on port (\d+)", line)
            if port:
                break
        else:
            sys.exit("chromedriver does not start")
        self.base = f"http://127.0.0.1:{port[1]}/session"
        options = {"binary": chromium, "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--window-size=1280,1000", f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        self.session = self.send("POST", "", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def send(self, method, path, body=None):
        url = self.base + (f"/{self.session}" if self.session else "") + path
        request = urllib.request.Request(url, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=600) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:600]) from None

    def close(self):
        try:
            if self.session:
                self.send("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def open(self, path):
        """Opens a page and all its details."""
        self.send("POST", "/url", {"url": "about:blank"})
        self.log("performance")  # discards the requests of the browser's first page
        self.send("POST", "/url", {"url": "file://" + path})
        self.opened = self.run("const open = [...document.querySelectorAll('.section')].map((d) => d.open);"
                               "for (const d of document.querySelectorAll('details')) d.open = true; return open")
        self.wait("return [...document.querySelectorAll('.numbers')].every((d) => d.querySelector('th'))")

    def run(self, script, *arguments):
        """Runs a script, in which all(css) returns the texts of the elements that are in view or can be scrolled into view."""
        script = ("const all = (css) => [...document.querySelectorAll(css)].filter((e) => e.checkVisibility()).map((e) => e.textContent);"
                  "const one = (css) => document.querySelector(css).textContent;" + script)
        return self.send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, css, index=0):
        element = self.run("const e = document.querySelectorAll(arguments[0])[arguments[1]];"
                           "e.scrollIntoView({block: 'center'}); return e", css, index)  # the controls then do not cover it
        self.send("POST", f"/element/{element[ELEMENT]}/click", {})

    def press(self, css, *names):
        """Presses keys in the first element."""
        self.run("document.querySelector(arguments[0]).focus()", css)
        strokes = [{"type": kind, "value": KEYS[name]} for name in names for kind in ("keyDown", "keyUp")]
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def hover(self, css, x, y, press=False):
        """Moves the pointer to (x, y), in pixels from the top left corner of the element. Clicks if `press` is true."""
        box = self.run("const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
                       "const b = e.getBoundingClientRect(); return [b.left, b.top]", css)
        moves = [{"type": "pointerMove", "duration": 0, "x": int(box[0] + x), "y": int(box[1] + y)}]
        if press:
            moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.send("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def choose(self, name, option):
        """Selects an option of the selection list with this label."""
        self.run("const s = [...document.querySelectorAll('#controls label')].find((l) => l.textContent.startsWith("
                 "arguments[0])).querySelector('select'); const names = [...s.options].map((o) => o.textContent);"
                 "s.selectedIndex = names.indexOf(arguments[1]); s.dispatchEvent(new Event('change'))", name, option)

    def texts(self, css):
        return self.run("return all(arguments[0])", css)

    def wait(self, script, seconds=60):
        """Waits until a script returns a true value. Returns the last value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)) and time.monotonic() < end:
            time.sleep(0.02)
        return value

    def text(self, css):
        return self.run("return one(arguments[0])", css)

    def devtools(self, command, **parameters):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.send("POST", "/se/log", {"type": kind})

    def screen(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])


# --- a synthetic study, whose numbers are all known
HOSTILE = ["^", "a", " ", "\n", "</script><script>window.broken=1</script>", "<img src=x onerror=window.broken=1>",
           '"', "&lt;", "é", "c", "b", "a"]
N = len(HOSTILE)
LAYERS = (2, 1)  # of the two panes
QUANTITIES = [("hook_pattern", "A", False), ("hook_pattern_grad", "dL/dA", True), ("hook_attn_scores_grad", "dL/dS", True),
              ("routes_from", "dL/dx through K and V", True)]


def value_of(quantity, pane, checkpoint, layer, head, i, j):
    """Returns the value of one cell, or None if it is masked. A window of three tokens hides keys of the first dL/dA."""
    if j > i or (quantity == 1 and pane == 0 and i - j >= 3):
        return None
    if quantity == 0:
        score = [3 * math.sin((1 + layer + 2 * head + checkpoint + 5 * pane) * (k + 1) * (1 + 0.1 * i)) for k in range(i + 1)]
        return 0.9 * math.exp(score[j]) / sum(map(math.exp, score))
    size = 0.01 if (quantity, layer, head) == (1, 0, 1) else 1  # below 2 % of the others
    return size * math.sin(1 + 3 * i + 7 * j + layer + 2 * head + 11 * checkpoint + pane) ** 5 * (1 + pane) / (quantity * 10)


def encoded(layer, head, n, value):
    cells = [value(i, j) for i in range(n) for j in range(i + 1)]
    scale = max(abs(x) for x in cells if x is not None)
    codes = [-32768 if x is None else round(x / scale * 32767) for x in cells]
    return {"layer": layer, "head": head, "scale": scale,
            "data": base64.b64encode(struct.pack(f"<{len(codes)}h", *codes)).decode()}


def made_up_checkpoint(pane, m, layers, n, complete):
    routes = []
    for l in range(layers):
        names = ["residual", "mlp"] + [f"L{l}H{h}.{side}" for h in range(2) for side in "QKV"]
        parts = [{"name": name, "values": [(1 + pane) * math.cos(1 + k + t + l + m) for t in range(n)]} for k, name in enumerate(names)]
        routes.append({"total": [1.0 + t for t in range(n)], "parts": parts})
    maps = {name: [encoded(l, h, n, lambda i, j: value_of(q, pane, m, l, h, i, j)) for l in range(layers) for h in range(2)]
            for q, (name, _, _) in enumerate(QUANTITIES) if complete or q not in (1, 3)}
    return {"step": 200 * m, "value": 2.5 / (m + 1), "routes": routes, "maps": maps}


def made_up(tokens, panes=LAYERS, checkpoints=3):
    return {
        "summary": ["L1H0 and L1H1 are\n  induction heads.", "Without them 3 % of L is left."], "claims": [{"text": "not shown"}],
        "heed": "0.1.0", "title": "Study of <b>induction</b>", "command": "heed study runs/a runs/b --prompt '<ab>'",
        "quantities": [{"name": name, "title": title, "signed": signed, "what": "a map"} for name, title, signed in QUANTITIES],
        "head_columns": [{"name": "needed", "unit": "of L", "what": "change of L by cutting the head"}],
        "panes": [{"name": f"runs/{'ab'[p]}", "hash": "1a2b3c4d", "objective": "the loss", "tokens": tokens, "length": len(tokens),
                   "block": 1, "layers": layers, "heads": 2, "saved_checkpoints": 5,
                   "cells": [{"layer": 0, "head": 1, "query": 3, "key": 2, "effect": -0.75},
                             {"layer": 0, "head": 0, "query": 1, "key": 1, "effect": 0.5}],
                   "checkpoints": [made_up_checkpoint(p, m, layers, len(tokens), m == checkpoints - 1) for m in range(checkpoints)]}
                  for p, layers in enumerate(panes)],
        "sections": SECTIONS, "pictures": PICTURES}


def panel_value(panel, i, j):
    """Returns the value of a cell in the maps of a section. One cell is missing; the second panel is below 2 % of the first."""
    return None if (i, j) == (1, 2) else (0.01 if panel else 1) * math.sin(1 + 5 * i + 3 * j)


SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><title>&lt;b&gt;</title><rect width="9" height="9"/></svg>'
PICTURES = {"time": [{"title": "needed", "what": "two <b>lines</b>", "svg": SVG}],
            "edges": [{"title": "The largest edges", "what": "three edges", "svg": SVG}]}
SECTIONS = [
    {"key": "words", "title": "Tokens in texts", "sentences": ["The largest is L0H0 ( )."], "tables": [
        {"title": "Effects", "what": "What cutting a head costs.",
         "columns": [{"name": "head", "unit": ""}, *({"name": f"column {k}", "unit": "nats"} for k in range(16))],
         "rows": [["L0H0", 0.5, None, *range(14)], ["L1H0", -1.25, None, *range(14)]]},
        {"title": "Places", "what": "Tokens of several kinds.",
         "columns": [{"name": "place", "unit": ""}, {"name": "token", "unit": ""}, {"name": "rank", "unit": ""}],
         "rows": [["L10 z at 2 ( )", " ", 2], ["L2 z at 3 (\n)", "\n", 10], ["L1 z at 1", " the  end\t", None],
                  ["L3 z", "\u00a0\u200b\r\x0b", 3]]}]},
    {"key": "patching", "title": "Patching", "maps": [
        {"title": "Restored", "what": "The patched places.", "signed": True, "row_axis": "place", "column_axis": "token",
         "rows": ["embed", "<b>attn</b>", "mlp"], "columns": [" a", "b", "c", "d"],
         "panels": [{"title": title, "values": [[panel_value(k, i, j) for j in range(4)] for i in range(3)]}
                    for k, title in enumerate(("denoise", "noise"))]},
        {"title": "Shares", "signed": False, "row_axis": "head", "column_axis": "head", "rows": ["x", "y"], "columns": ["x", "y"],
         "panels": [{"title": "only one", "values": [[0, 4], [1, 2]]}]}]},
    {"key": "time", "title": "Over time", "charts": [
        {"title": "needed", "x_name": "step", "y_name": "nats", "series": [
            {"name": "L0H0", "x": [0, 200, 400], "y": [-1, 0, 1]}, {"name": "<b>L1H0</b>", "x": [0, 200, 400], "y": [0.5, None, 0.25]}]},
        {"title": "nothing", "x_name": "", "y_name": "", "series": []}]},
    {"key": "edges", "title": "Edges", "network": {
        "title": "The largest edges", "nodes": [{"name": "embed"}, {"name": "L0H0"}, {"name": "logits"}],
        "edges": [{"from": 0, "to": 1, "name": "a", "value": 5}, {"from": 1, "to": 2, "name": "b", "value": -2},
                  {"from": 0, "to": 2, "name": "c", "value": 1}]}},
    {"key": "empty", "title": "Nothing to show", "sentences": [], "tables": [], "maps": [], "charts": [], "network": None}]


def made_up_blocks():
    """Returns a page whose cells cover 2 x 2 tokens of a sequence of 11 tokens."""
    data = made_up([f"{t}-{min(t + 1, 10)}" for t in range(0, 11, 2)], panes=(2,), checkpoints=1)
    data["panes"][0].update(length=11, block=2, texts=HOSTILE[:11])
    return data


# --- checks
failures = []


def check(what, got, wanted=True):
    if got != wanted:
        failures.append(what)
        print(f"FAILED: {what}: {got!r}, not {wanted!r}")


def check_all(browser, checks):
    """Checks a list of (what, expression of JavaScript, its value)."""
    for what, expression, wanted in checks:
        check(what, browser.run("return " + expression), wanted)


def number(text):
    return float(text.replace("−", "-"))


def same(got, wanted):
    """Returns True if two numbers are equal in the three digits that the page shows."""
    return got is not None and abs(got - wanted) <= 0.006 * abs(wanted) + 1e-5


# Texts of the page at first. They are shown as text, and never as HTML.
FIRST = [
    ("the document's title is that of the study", "[document.title, one('h1')]", ["Study of <b>induction</b>"] * 2),
    ("no text is HTML, and no token is code", "[window.broken, document.querySelectorAll('h1 b, .section b').length]", [None, 0]),
    ("the summary stands before the controls", "all('#summary p, #controls')[0]", "L1H0 and L1H1 are induction heads."),
    ("other keys of the data are not shown", "document.body.innerText.includes('not shown')", False),
    ("a pane begins with a sentence about L", "all('.pane > h2 + p')", ["L is the loss. L = 0.833 at step 400."] * 2),
    ("the numbers of heads are described", "one('#definitions').includes('change of L by cutting the head (of L)')", True),
    ("the cell with the largest measured effect is selected",
     "one('output.readout').split(':')[0] + one('output.readout').split(',').at(-1)", "L0H1, query 3 “\\n”, key 2 “␣” measured change = −0.750"),
    ("sections follow the panes", "all('#panes ~ #sections h2')", [section["title"] for section in SECTIONS]),
    ("a sentence is shown", "all('#words > p')", ["The largest is L0H0 (␣)."]),
    ("tables have their notes", "all('#words .muted')", ["What cutting a head costs.", "Tokens of several kinds."]),
    ("a column without values is not shown", "all('#words .view:nth-of-type(1) thead th').length", 16),
    ("spaces and control characters are visible", "all('#words .view:last-child td:nth-child(2)')",
     ["␣", "\\n", "␣the␣␣end\\t", "U+00A0U+200B\\r\\x0b"]),
    ("a token inside a text is visible", "all('#words .view:last-child tbody th')", ["L10 z at 2 (␣)", "L2 z at 3 (\\n)", "L1 z at 1", "L3 z"]),
    ("a panel below 2 % of the limit says so", "all('#patching .panels span')", ["denoise", "noise below 2 %"]),
    ("an unsigned map begins at 0", "all('#patching > .view:last-child .ticks span')", ["0", "1", "2", "3", "4"]),
    ("a map has its numbers as a table", "all('#patching > .view:last-child .numbers tr').slice(1)", ["x04", "y12"]),
    ("pictures of a section are drawn, and have a description", "[...document.images].map((e) => [e.closest('details').id, e.naturalWidth, e.alt])",
     [["time", 40, "two <b>lines</b>"], ["edges", 40, "three edges"]]),
    ("a chart has its numbers as a table", "all('#time .numbers tr')[5]", "<b>L1H0</b>200–"),
    ("colors of values on scales", "[[0, {max: 1}], [0.5, {max: 2}], [3, {max: 2}], [-1, {max: 4, signed: true}],"
     "[1, {max: 4, signed: true, root: true}]].map(([value, scale]) => colorOf(value, scale, 'light').join())",
     ["68,1,84", "59,82,139", "253,231,37", "207,219,246", "243,164,124"]),
    ("every map, chart and network has numbers", "document.querySelectorAll('.numbers').length", 9)]


def cell_read(browser, pane=1):
    """Reads the text that the page shows for the cell of a head. Returns (head, query, key, {title: value or None})."""
    text = browser.text(f".pane:nth-of-type({pane}) output.readout")
    found = re.match(r"(L\d+H\d+), query (\S+) “.*?”, key (\S+) “.*?”: (.*)$", text, re.S)
    parts = {part.split(" ")[0]: part for part in found[4].split(", ")}
    return found[1], found[2], found[3], {title: number(part.split("= ")[1]) if "= " in part else None for title, part in parts.items()}


ROWS = {"1": "L1 z at 1␣the␣␣end\\t–", "2": "L2 z at 3 (\\n)\\n10", "3": "L3 zU+00A0U+200B\\r\\x0b3", "10": "L10 z at 2 (␣)␣2"}
STEPS = [  # what is tested, an action with its arguments, an element, and how its text begins
    ("arrows move the selected cell", "press", ("canvas.map", *["Up"] * 12, *["Left"] * 12, *["Down"] * 9, "Right", "Right"),
     "output.readout", "L0H1, query 9 “c”, key 2 “␣”: A = "),
    ("a click on a small map selects its head", "click", (".panels label", 3), ".large h4", "L1H1: A"),
    ("a head that the other run does not have", "click", (".panels label", 3), ".pane:nth-of-type(2) output.readout", "not stored for this head"),
    ("arrow keys move from head to head", "press", (".panels input:checked", "Left"), ".large h4", "L1H0: A"),
    ("the value of a cell of a section", "press", ("#patching canvas.map", "Down"), "#patching output", "denoise: place <b>attn</b>, token ␣a: −0.279"),
    ("another panel has the same cell", "click", ("#patching .panels label", 1), "#patching output", "noise: place <b>attn</b>, token ␣a: −0.00279"),
    ("a missing value", "press", ("#patching canvas.map", "Right", "Right"), "#patching output", "noise: place <b>attn</b>, token c: –"),
    ("the slider moves to the previous checkpoint", "press", ("#checkpoint", "Left"), "#controls output", "step 200 (2 of 3, selected from 5)"),
    ("L is that of the checkpoint", "press", ("#checkpoint",), ".pane p", "L is the loss. L = 1.25 at step 200."),
    ("maps are those of the checkpoint", "press", ("#checkpoint",), "output.readout", "L1H0, query 9 “c”, key 2 “␣”: A = 9.0"),
    ("a map that is not stored", "choose", ("Show", "dL/dA"), "output.readout", "not stored for this head or checkpoint"),
    ("another map", "choose", ("Show", "A"), ".large h4", "L1H0: A"),
    ("the slider moves back", "press", ("#checkpoint", "Right"), "#controls output", "step 400 (3 of 3"),
    *(("a press on a title sorts, missing values are last", "press", (f"#words .view:last-child th:nth-child({column}) .sort", "Enter"),
       "#words .view:last-child tbody", "".join(ROWS[row] for row in order.split()))
      for column, order in ((3, "2 3 10 1"), (3, "10 3 2 1"), (1, "1 2 3 10"), (1, "10 3 2 1"))),
    ("a table of numbers is that of the chosen map", "click", (".routes .panels label", 1), ".routes .numbers tr:nth-child(2) th", "mlp")]


def check_cells(browser):
    """Checks pointer and keys on the map of a head: the cell under the pointer, the selected cell, and their texts."""
    width, height = browser.run("const b = document.querySelector('canvas.map').getBoundingClientRect(); return [b.width, b.height]")
    browser.hover("canvas.map", width * 0.3, height * 0.5, press=True)
    browser.hover("h1", 2, 2)
    selected = head, query, key, _ = cell_read(browser)
    check("the cell is in the lower left", int(key) < 5 < int(query) + 2)
    for pane in (1, 2):
        shown = cell_read(browser, pane)
        check("both panes show the same cell", shown[:3], selected[:3])
        for k, title in enumerate(("A", "dL/dA", "dL/dS", "dL/dx")):
            wanted = value_of(k, pane - 1, 2, int(head[1]), int(head[3]), int(query), int(key))
            check(f"the cell's {title}", shown[3][title] is None if wanted is None else same(shown[3][title], wanted))
    check("the command that measures the cell", browser.text("output.readout").endswith(f'add --cut "{head}[{query},{key}]" to the command'))
    browser.hover("canvas.map", width - 6, 3)
    check("a hover shows another cell, which is masked", "query 0 “^”, key 11 “a”: A masked" in browser.text("output.readout"))
    browser.hover("h1", 2, 2)
    check("after a hover the selected cell is shown again", cell_read(browser) == selected)
    for what, action, arguments, css, wanted in STEPS:
        getattr(browser, action)(*arguments)
        check(what, browser.text(css)[:len(wanted)], wanted)


def check_routes(browser, data):
    browser.press(".routes canvas.map", "Down", "Right")
    route = data["panes"][0]["checkpoints"][2]["routes"][1]
    value, total = route["parts"][1]["values"][1], route["total"][1]
    text = browser.text(".routes output")
    found = re.match(r"mlp at token 1 “a”, before layer 1: (\S+) of \|dL/d residual\| = (\S+), a share of (\S+)$", text)
    check(f"the text of a route: {text}", bool(found) and all(same(number(x), y) for x, y in zip(found.groups(), (value, total, value / total))))
    rows = browser.run("return [...document.querySelectorAll('.pane:first-of-type .routes tr')].slice(1).map((r) => [...r.cells].map((c) => c.textContent))")
    check("the numbers of the routes", len(rows) == 8 and all(row[0] == part["name"].replace("L1", "") and all(
        same(number(cell), x) for cell, x in zip(row[1:], part["values"])) for row, part in zip(rows, route["parts"])))
    check("both panes have the same scale of routes", len(set(browser.texts(".routes .ticks span:last-child"))), 1)


# --- colors
def check_colors(browser, what, css, panels, size, signed, root, limit=None):
    """Checks the colors of all cells of small maps. `panels` has for each map its value by row and column."""
    values = [[panel(i, j) for i in range(size[0]) for j in range(size[1])] for panel in panels]
    limit = limit or max(abs(x or 0) for panel in values for x in panel)
    wrong = browser.run("""
        const [css, panels, scale] = arguments;
        return [...document.querySelectorAll(css)].flatMap((canvas, k) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return panels[k].filter((x, at) => colorOf(x ?? NaN, scale, "light").some((c, n) => Math.abs(c - data[4 * at + n]) > 2.5));
        }).length + 1000 * Math.abs(document.querySelectorAll(css).length - panels.length)""",
                        css + " .panels canvas", values, {"max": limit, "signed": signed, "root": root})
    check(f"{what}: cells with a wrong color", wrong, 0)
    return limit


def check_scale(browser):
    heads = [(p, l, h) for p in range(2) for l in range(LAYERS[p]) for h in range(2)]
    for curve in ("linear", "root"):
        browser.choose("Signed maps", curve + " scale")
        check_colors(browser, "a section", "#patching", [lambda i, j, k=k: panel_value(k, i, j) for k in range(2)], (3, 4), True, curve == "root")
        for q, title in enumerate(("A", "dL/dA", "dL/dS")):
            browser.choose("Show", title)
            panels = [lambda i, j, at=at: value_of(q, at[0], 2, at[1], at[2], i, j) for at in heads]
            limit = check_colors(browser, title, ".pane > .maps", panels, (N, N), q > 0, q > 0 and curve == "root", None if q else 1)
            ticks = [number(text) for text in browser.texts(".pane .large .ticks span")[:5]]
            check(f"the scale of {title} ends at its largest magnitude", same(ticks[4], limit) and same(ticks[0], -limit if q else 0))
            check("the bar names the scale", browser.text(".large .bar .muted"), f"{curve if q else 'linear'} scale;  masked")
            faint = [text for text in browser.texts(".pane > .maps .panels span") if "below" in text]
            check(f"maps of {title} below 2 % of the limit", faint, ["L0H1 below 2 %"] * 2 if q == 1 else [])
    browser.choose("Show", "dL/dA")
    browser.click(".panels label", 1)
    check("the large map says so, too", browser.text(".large h4"), "L0H1: dL/dA, below 2 % of the color scale's limit")


def check_quiet(browser, path):
    check("the console is empty", [entry["message"] for entry in browser.log("browser")], [])
    urls = [message["params"]["request"]["url"] for entry in browser.log("performance")
            for message in [json.loads(entry["message"])["message"]] if message["method"] == "Network.requestWillBeSent"]
    check("only the page was requested", {url for url in urls if not url.startswith("data:")}, {"file://" + path})


def test_in(browser, folder):
    data = {"two": made_up(HOSTILE), "blocks": made_up_blocks()}
    paths = {name: os.path.join(folder, name + ".html") for name in data}
    for name, path in paths.items():
        with open(path, "wb") as file:
            file.write(subprocess.run([sys.argv[1]], input=json.dumps(data[name]).encode(), stdout=subprocess.PIPE, check=True).stdout)
    browser.screen(1280, 1000)
    browser.open(paths["two"])
    check("the first two sections are open", browser.opened, [True] * 2 + [False] * 3)
    check_all(browser, FIRST)
    check_cells(browser)
    check_routes(browser, data["two"])
    check_quiet(browser, paths["two"])
    check_scale(browser)
    browser.open(paths["blocks"])
    browser.press("canvas.map", *["Left"] * 6, *["Up"] * 6, "Down", "Down", "Right")
    check("names of blocks of tokens", browser.text("output.readout").split(": A")[0], f"L0H0, query 4-5 “{HOSTILE[4].replace(' ', '␣')} "
          f"{HOSTILE[5].replace(' ', '␣')}”, key 2-3 “␣\\n”")
    check("blocks are explained", "A cell covers 2 × 2 tokens: the value of" in browser.text(".pane"))
    check("no page has errors", [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"], [])


def main():
    found = {names[0]: next(filter(None, map(shutil.which, names)), None)
             for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))}
    missing = [name for name, path in found.items() if not path]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} here; tools/setup --all installs them")
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(*found.values(), os.path.join(folder, "profile"))
        try:
            test_in(browser, folder)
        finally:
            browser.close()
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
