#!/usr/bin/env python3
"""Tests the page of a study in headless Chromium. The test moves the pointer and presses keys.

Usage: page_test.py HEED_PAGE, where HEED_PAGE is the program built from page_main.cpp. The test needs chromium
and chromedriver (Debian's packages chromium and chromium-driver, or `tools/setup --all`). Without them the test
prints a note and is skipped. It uses only Python's standard library, because WebDriver is JSON over HTTP
(https://www.w3.org/TR/webdriver2/).
"""
import base64
import csv
import io
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
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Space": " ", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011", "Left": "\ue012",
        "Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}


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
        self.send("POST", "/url", {"url": "about:blank"})
        self.log("performance")  # discards the requests of the browser's first page
        self.send("POST", "/url", {"url": "file://" + path})

    def run(self, script, *arguments):
        return self.send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, css, index=0):
        element = self.run("const e = document.querySelectorAll(arguments[0])[arguments[1]];"
                           "e.scrollIntoView({block: 'center'}); return e", css, index)  # the controls then do not cover it
        self.send("POST", f"/element/{element[ELEMENT]}/click", {})

    def focus(self, css, index=0):
        self.run("document.querySelectorAll(arguments[0])[arguments[1]].focus()", css, index)

    def press(self, *names):
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
        """Returns the texts of all elements that are in view or can be scrolled into view."""
        return self.run("return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility())"
                        ".map((e) => e.textContent)", css)

    def wait(self, script, seconds=60):
        """Waits until a script returns a true value. Returns the last value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)) and time.monotonic() < end:
            time.sleep(0.02)
        return value

    def text(self, css, index=0):
        return self.run("return document.querySelectorAll(arguments[0])[arguments[1]].textContent", css, index)

    def devtools(self, command, **parameters):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.send("POST", "/se/log", {"type": kind})

    def screen(self, width, height, dark=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])


# --- a synthetic study, whose numbers are all known
HOSTILE = ["^", "a", " ", "\n", "</script><script>window.broken=1</script>", "<img src=x onerror=window.broken=1>",
           '"', "&lt;", "é", "c", "b", "a"]
QUANTITIES = [
    {"name": "hook_pattern", "title": "A", "unit": "", "signed": False, "what": "the weights"},
    {"name": "hook_pattern_grad", "title": "dL/dA", "unit": "nats", "signed": True, "what": "by the weights"},
    {"name": "hook_attn_scores_grad", "title": "dL/dS", "unit": "nats", "signed": True, "what": "by the scores"}]


def value_of(quantity, pane, checkpoint, layer, head, i, j):
    """Returns the value of one cell. Weights are 0.9 times the softmax of a row of sines, as with an attention sink."""
    if quantity == 0:
        score = [3 * math.sin((1 + layer + 2 * head + checkpoint + 5 * pane) * (k + 1) * (1 + 0.1 * i)) for k in range(i + 1)]
        return 0.9 * math.exp(score[j]) / sum(map(math.exp, score))
    size = {(1, 0, 1): 0.01, (2, 1, 1): 0.05}.get((quantity, layer, head), 1)  # below and above 2 % of the others
    return size * math.sin(1 + 3 * i + 7 * j + layer + 2 * head + 11 * checkpoint + pane) ** 5 * (1 + pane) / (quantity * 10)


def encoded(layer, head, n, value, triangle=True):
    """Encodes a map. A cell whose value is None is masked."""
    cells = [value(i, j) for i in range(n) for j in range(i + 1 if triangle else n)]
    scale = max(abs(x) for x in cells if x is not None)
    codes = [-32768 if x is None else round(x / scale * 32767) for x in cells]
    return {"layer": layer, "head": head, "scale": scale, "triangle": triangle,
            "data": base64.b64encode(struct.pack(f"<{len(codes)}h", *codes)).decode()}


def made_up_checkpoint(pane, m, step, layers, heads, n, complete):
    def maps(q):
        return [encoded(l, h, n, lambda i, j: value_of(q, pane, m, l, h, i, j))
                for l in range(layers) for h in range(heads)]

    routes = []
    for l in range(layers):
        names = ["residual", "mlp"] + [f"L{l}H{h}.{side}" for h in range(heads) for side in "QKV"]
        shares = [[math.cos(1 + k + t + l + m) + 0.4 for t in range(n)] for k in range(len(names))]
        sums = [sum(row[t] for row in shares) for t in range(n)]
        parts = [{"name": name, "share": [x / s for x, s in zip(row, sums)]} for name, row in zip(names, shares)]
        routes.append({"total": [0.1 * (1 + pane) * (n - 1 - t) / n for t in range(n)], "parts": parts,
                       "from": maps(2)[l * heads:(l + 1) * heads] if complete else []})
    reports = [{"layer": l, "head": h, "mark": "reversed" if (l, h) == (1, 0) else "-",
                "values": [SCORES[l][h], None if h else 0.125 * (l + 1), 1e-5 * (m + 1), 0.01 * (l + 1) * (1 - 2 * h),
                           *range(5), None, 0.5 * l - h, 0.25]}
               for l in range(layers) for h in range(heads)]
    names = ["hook_pattern", "hook_pattern_grad", "hook_attn_scores_grad"]
    return {"step": step, "value": 2.5 / (m + 1), "heads": reports, "routes": routes,
            "maps": {name: maps(q) for q, name in enumerate(names) if complete or q != 1}}


SCORES = ((0.25, -0.5), (10, 9.5))  # the first column of the table of heads



def made_up(tokens, layers=2, heads=2, panes=2, steps=(0, 200, 400)):
    n = len(tokens)
    return {
        "summary": ["L1H0 and L1H1 are induction heads.", "Without them 3 % of L is left."],
        "claims": [{"text": "not shown", "head": "L1H0"}], "tables": [{"title": "not read"}],
        "heed": "0.1.0", "title": "Study of <b>induction</b>", "command": "heed study runs/a runs/b --prompt '<ab>'",
        "quantities": list(QUANTITIES),
        "head_columns": [{"name": "entropy", "unit": "share of log(visible keys)", "what": "of the weights"},
                         {"name": "induction", "unit": "", "what": "weight on what followed the copy", "main": True},
                         {"name": "|dL/dq|", "unit": "nats", "what": "norm"},
                         {"name": "importance", "unit": "", "what": "dL/dg"},
                         *({"name": f"other_{k}", "unit": "", "what": f"the column {k}"} for k in range(6)),
                         {"name": "needed", "unit": "of L", "what": "change of L by cutting the head", "main": True},
                         {"name": "suffices", "unit": "of L", "what": "change of L by adding the head", "main": True}],
        "panes": [{"name": f"runs/{'abc'[p]}", "hash": "1a2b3c4d", "objective": "the loss", "tokens": tokens,
                   "length": n, "block": 1, "layers": layers, "heads": heads, "loss_curve": [[0, 3.5], [200, 1.5], [400, 0.5]],
                   "cells": [{"layer": 0, "head": 1, "query": 3, "key": 2, "effect": -0.75}],
                   "checkpoints": [made_up_checkpoint(p, m, step, layers, heads, n, m == len(steps) - 1)
                               for m, step in enumerate(steps)]} for p in range(panes)],
        "sections": SECTIONS}


def panel_value(panel, i, j):
    """Returns the value of a cell in the maps of a section. One cell is missing; the second panel is below 2 % of the first."""
    return None if (i, j) == (1, 2) else (0.01 if panel else 1) * math.sin(1 + 5 * i + 3 * j)


SECTION_LIMIT = max(abs(panel_value(0, i, j) or 0) for i in range(3) for j in range(4))
SECTIONS = [
    {"key": "words", "title": "Tokens in texts", "sentences": ["The largest is L0H0 ( )."], "tables": [
        {"title": "Effects", "what": "What cutting a head costs.",
         "columns": [{"name": "head", "unit": ""}, {"name": "zero", "unit": "nats"}], "rows": [["L0H0", 0.5], ["L1H0", -1.25]]},
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
        "title": "The largest edges", "what": "Cuts of edges.",
        "nodes": [{"name": "embed", "column": 1, "row": 0}, {"name": "L0H0", "column": 0, "row": 1}, {"name": "logits", "column": 1, "row": 2}],
        "edges": [{"from": 0, "to": 1, "name": "a", "value": 5}, {"from": 1, "to": 2, "name": "b", "value": -2},
                  {"from": 0, "to": 2, "name": "c", "value": 1}]}},
    {"key": "empty", "title": "Nothing to show", "sentences": [], "tables": [], "maps": [], "charts": [], "network": None}]


def made_up_plain():
    """Returns a page without routes, checkpoints, measured cuts, a summary and sections. The mask of its gradients hides
    keys that are three or more tokens before the query. The second run has one layer."""
    data = made_up(["^", *"abcab"], panes=2, steps=(None,))
    for key in ("summary", "sections", "tables"):
        del data[key]
    for pane in data["panes"]:
        del pane["cells"], pane["loss_curve"], pane["checkpoints"][0]["routes"]
        for report in pane["checkpoints"][0]["heads"]:
            del report["mark"], report["values"][-2:]
    data["panes"][1]["layers"] = 1
    windows = [encoded(l, h, 6, lambda i, j: windowed(l, h, i, j)) for l in range(2) for h in range(2)]
    data["panes"][0]["checkpoints"][0]["maps"]["hook_pattern_grad"] = windows
    return data


def windowed(layer, head, i, j):
    return value_of(1, 0, 0, layer, head, i, j) if i - j < 3 else None


def made_up_blocks():
    """Returns a page whose cells cover 2 x 2 tokens of a sequence of 11 tokens."""
    data = made_up([f"{t}-{min(t + 1, 10)}" for t in range(0, 11, 2)], panes=1, steps=(None,))
    data["panes"][0].update(length=11, block=2, texts=HOSTILE[:11])
    return data


def made_up_circuits():
    """Returns a page that has only sections."""
    return {"heed": "0", "title": "circuits", "command": "heed study --circuits", "sections": SECTIONS}


# --- checks
failures = []


def check(what, holds):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def number(text):
    return float(text.replace("−", "-"))


def same(got, wanted):
    """Returns True if two numbers are equal in the three digits that the page shows."""
    return got is not None and abs(got - wanted) <= 0.006 * abs(wanted) + 1e-5


def pane_text(browser, css, pane=0):
    return browser.text(f".pane:nth-of-type({pane + 1}) {css}")


def cell_read(browser, pane=0):
    """Reads the text that the page shows for the cell of a head. Returns (head, query, key, {title: value or None})."""
    text = pane_text(browser, "output.readout", pane)
    found = re.match(r"(L\d+H\d+), query (\d+) “.*?”, key (\d+) “.*?”: (.*)$", text, re.S)
    check(f"the text has the expected form: {text!r}", found)
    if not found:
        return "", -1, -1, {}
    parts = {part.split(" ")[0]: part for part in found[4].split(", ")}
    return found[1], int(found[2]), int(found[3]), {title: number(part.split("= ")[1]) if "= " in part else None
                                                    for title, part in parts.items()}


def check_texts(browser, data):
    check("the document's title is that of the study", browser.run("return document.title") == data["title"])
    check("the title is text", browser.text("h1") == data["title"] and not browser.run("return document.querySelector('h1 b, .section b')"))
    check("no token is executed as code", browser.run("return window.broken === undefined && !document.querySelector('img')"))
    tokens = browser.run("return [...document.querySelectorAll('.tokens')[0].children].map((b) => b.textContent)")
    check("tokens are shown as text, with signs for spaces and newlines", tokens == ["^", "a", "␣", "\\n", *(t.replace(" ", "␣") for t in HOSTILE[4:])])
    marked = [("reversed" in text) for text in browser.texts(".pane:first-of-type > .maps label")]
    check(f"only the head with a mark is marked: {marked}", marked == [False, False, True, False])
    check("the mark is explained", "has the other sign" in browser.text("#marks-note"))
    check("the summary is a section before the controls", browser.texts("#summary p") == data["summary"] and browser.run(
          "return document.getElementById('summary').compareDocumentPosition(document.getElementById('controls'))") == 4)
    check("claims and tables at the top level are not shown", not any(word in browser.text(css) for word in ("not shown", "not read")
          for css in ("#summary", "#panes", "#sections")))
    second = browser.run("return [...document.querySelectorAll('.pane')].map((p) => p.children[1].textContent)")
    check(f"each pane begins with a sentence about L: {second}", all(text.startswith("L is the loss. L = 0.833 at step 400") for text in second))
    check("the sign of suffices is described", "change of L by adding the head" in browser.text("#definitions"))


def check_cells(browser, data):
    """Checks pointer and keys on the map of a head: cells under the pointer, the selected cell, and their texts."""
    width, height = browser.run("const b = document.querySelector('canvas.map').getBoundingClientRect(); return [b.width, b.height]")
    away = lambda: browser.hover("h1", 2, 2)
    outlined = ("const c = document.querySelector('canvas.map'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                "let black = 0; for (let k = 0; k < d.length; k += 4) black += d[k] + d[k + 1] + d[k + 2] === 0 && d[k + 3] === 255; return black")
    browser.hover("canvas.map", width * 0.3, height * 0.7, press=True)
    pinned = head, query, key, values = cell_read(browser)
    check(f"the lower left has a late query and an early key, got {query}, {key}", 0 < key < 5 < query)
    for pane in range(2):
        shown = cell_read(browser, pane)
        check("both panes show the same cell", shown[:3] == pinned[:3])
        for k, title in enumerate(("A", "dL/dA", "dL/dS")):
            check(f"the cell's {title}", same(shown[3][title], value_of(k, pane, 2, int(head[1]), int(head[3]), query, key)))
        check("the cell's gradient through K and V", same(shown[3]["dL/dx"], value_of(2, pane, 2, int(head[1]), int(head[3]), query, key)))
    check("the command that measures the cell", f'add --cut "{head}[{query},{key}]"' in browser.text("output.readout"))
    browser.hover("canvas.map", width * 0.2, height * 0.3)
    hovered = cell_read(browser)
    check("a hover shows the values of another cell, in both panes", hovered[1:3] != pinned[1:3] and cell_read(browser, 1)[1:3] == hovered[1:3])
    check("the tokens show what the query under the pointer reads", pane_text(browser, ".query") == data["panes"][0]["tokens"][hovered[1]])
    browser.hover("canvas.map", width - 6, 3)
    text = browser.text("output.readout")
    check(f"the upper right corner is masked: {text}", "query 0 " in text and "key 11 " in text and "A masked" in text)
    away()
    check("after a hover the clicked cell is shown again", cell_read(browser) == pinned)
    check("the selected cell is outlined", browser.run(outlined) > 20)
    browser.focus("canvas.map")
    browser.press("Escape")
    check("Escape removes the selection", "No cell is selected" in browser.text("output.readout") and browser.run(outlined) < 20)
    browser.press(*["Up"] * 12, *["Down"] * 9, "Home", "Right", "Right")
    check("arrows and Home move the cursor", cell_read(browser)[1:3] == (9, 2))
    browser.click(".panels label", 1)
    browser.focus("canvas.map")
    browser.press(*["Up"] * 6)
    check("a measured cut of a cell is shown", browser.text("output.readout").endswith("measured change = \u22120.750"))
    browser.press(*["Down"] * 6, "End")
    check("End moves to the last visible key of the row", cell_read(browser)[2] == 9)


def check_slider(browser):
    marker = lambda: browser.run("return document.querySelector('.marker').getAttribute('d')")
    browser.focus("canvas.map")
    browser.press("Home")
    browser.focus("#checkpoint")
    last = marker()
    browser.press("Left")
    check("the slider moves to the previous checkpoint", "step 200 (2 of 3)" in browser.text("#controls output"))
    head, query, key, values = cell_read(browser)
    for pane in range(2):
        check("the value of L is that of the checkpoint", "1.25" in pane_text(browser, "p", pane))
    check("the cell shows the value of the checkpoint", same(values["A"], value_of(0, 0, 1, int(head[1]), int(head[3]), query, key)))
    check("the text of a map that is not stored says so", "dL/dA not stored" in browser.text("output.readout"))
    check("charts over steps mark the checkpoint", marker() != last and len(browser.texts(".marker")) == 3)
    browser.press("Right")
    check("the slider moves back", "step 400" in browser.text("#controls output") and marker() == last)


def check_routes(browser, data):
    browser.click(".panels label", 3)
    check("a click on a small map selects its head", browser.text(".large h4").startswith("L1H1"))
    browser.focus(".panels input:checked")
    browser.press("Left")
    check("arrow keys move from head to head", browser.text(".large h4").startswith("L1H0"))
    route = data["panes"][0]["checkpoints"][2]["routes"][1]
    rows = copied(browser, ".routes .tools a")
    check("CSV of the routes: every layer, route and token", len(rows) == 1 + 2 * 8 * 12)
    cells = [(part["name"], t, x * route["total"][t]) for part in route["parts"] for t, x in enumerate(part["share"])]
    check("the values are shares of the gradient", all((name, str(t)) == (row[2], row[3]) and abs(float(row[5]) - x) < 1e-6 + 1e-4 * abs(x)
          for (name, t, x), row in zip(cells, rows[1 + 8 * 12:])))
    browser.focus(".routes canvas.map")
    browser.press("Home", "Down", "Right")
    share, total = route["parts"][1]["share"][1], route["total"][1]
    text = browser.text(".routes output")
    found = re.match(r"mlp at token 1 “a”, before layer 1: (\S+) of \|dL/d residual\| = (\S+), a share of (\S+)$", text)
    check(f"the text of a cell of the routes: {text}", found and all(same(number(x), y) for x, y in zip(found.groups(), (share * total, total, share))))
    check("routes have their own cell", cell_read(browser)[1:3] != (1, 1))
    check("both panes have the same scale of routes", len(set(browser.texts(".routes .ticks span:last-child"))) == 1)


def copied(browser, css):
    """Returns the rows of the CSV file that a link saves."""
    browser.run("window.real ??= URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved = blob; return '#'; }")
    browser.click(css)
    return list(csv.reader(io.StringIO(browser.run("return window.saved.text()"), newline="")))


def check_numbers(browser, folder):
    head = browser.text(".large h4")[:4]
    rows = copied(browser, ".maps .tools a")
    check("CSV of all heads: a row for each visible cell", len(rows) == 1 + 4 * 78)
    good = all(abs(float(x) - value_of(0, 0, 2, int(name[1]), int(name[3]), int(i), int(j))) < 1e-4
               and ti == HOSTILE[int(i)] and tj == HOSTILE[int(j)] for name, i, ti, j, tj, x in rows[1:])
    check("CSV of all heads: the numbers and tokens", good)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    count = "return [...document.querySelectorAll('details.numbers')].map((d) => d.querySelectorAll('td').length)"
    browser.wait(f"{count}.filter((n) => n > 0).length === 10")  # <details> sends its toggle event later
    views = browser.run(count)
    check(f"every map, chart and network has a table: {views}", len(views) == 11 and views[9:] == [0, 9])
    cell = browser.run("return document.querySelectorAll('.large .numbers tbody tr')[11].querySelectorAll('td')[0].textContent")
    check("a table's number", same(number(cell), value_of(0, 0, 2, int(head[1]), int(head[3]), 11, 0)))
    browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
    browser.run("URL.createObjectURL = window.real")
    browser.click("#words .tools a")
    name = os.path.join(folder, "Effects.csv")
    end = time.monotonic() + 60
    while not (os.path.exists(name) and os.path.getsize(name)) and time.monotonic() < end:
        time.sleep(0.02)
    with open(name) as file:
        check("a link saves a CSV file", file.read() == "head,zero (nats)\nL0H0,0.5\nL1H0,-1.25\n")


def check_sections(browser):
    check("the first two sections are open", browser.run("return [...document.querySelectorAll('.section')].map((d) => d.open)") == [True] * 2 + [False] * 3)
    browser.run("document.querySelectorAll('.section').forEach((d) => (d.open = true))")
    browser.wait("return document.querySelectorAll('.section svg[role=img]').length === 3")
    check("sections follow the panes", browser.texts("#panes ~ #sections h2") == [section["title"] for section in SECTIONS])
    check("a sentence is shown", browser.texts("#words > p") == ["The largest is L0H0 (␣)."])
    check("tables have their notes", browser.texts("#words .muted") == ["What cutting a head costs.", "Tokens of several kinds."])
    cells = lambda k: browser.texts(f"#words .view:last-child tbody tr > :nth-child({k})")
    check(f"spaces and control characters in tables are visible: {cells(2)}", cells(2) == ["␣", "\\n", "␣the␣␣end\\t", "U+00A0U+200B\\r\\x0b"])
    check(f"a token inside a text is visible: {cells(1)}", cells(1) == ["L10 z at 2 (␣)", "L2 z at 3 (\\n)", "L1 z at 1", "L3 z"])
    for column, first, second in ((2, ["10", "3", "2", "–"], ["2", "3", "10", "–"]), (0, ["L1", "L2", "L3", "L10"], ["L10", "L3", "L2", "L1"])):
        for direction, expected in (("first", first), ("second", second)):
            browser.click("#words .view:last-child .sort", column)
            found = [text.split(" ")[0] for text in cells(column + 1)]
            check(f"the {direction} press on a title sorts, missing values are last: {found}", found == expected)
    check("the title states the direction", browser.run("return [...document.querySelectorAll('#words .view:last-child th')].map((t) => t.ariaSort)")[:3] == ["descending", None, None])

    check("a panel below 2 % of the limit is marked", browser.texts("#patching .panels span") == ["denoise", "noise below 2 %"])
    browser.click("#patching .panels label", 1)
    browser.focus("#patching canvas.map")
    browser.press("Down")
    text = lambda: browser.text("#patching output")
    check(f"the value of a cell: {text()}", text() == "noise: place <b>attn</b>, token ␣a: −0.00279")
    browser.press("Right", "Right")
    check(f"a missing value: {text()}", text() == "noise: place <b>attn</b>, token c: –")
    check("a map of one panel has no small map", len(browser.texts("#patching .panels")) == 1)
    ticks = browser.texts("#patching > .view:last-child .ticks span")
    check(f"an unsigned map begins at 0: {ticks}", ticks == ["0", "1", "2", "3", "4"])

    lines = browser.run("return [...document.querySelectorAll('#time .line')].map((e) => e.getAttribute('d'))")[:2]
    points = [re.findall(r"([ML])(\S+) ([\d.]+)", line) for line in lines]
    check(f"a missing value interrupts a line: {points}", [[p[0] for p in one] for one in points] == [list("MLL"), list("MM")])
    heights = [float(p[2]) for p in points[0] + points[1]]
    check("the points have their heights", abs(heights[0] + heights[2] - 2 * heights[1]) < 0.01 and
          abs((heights[1] - heights[3]) - 2 * (heights[1] - heights[4])) < 0.01 and heights[3] < heights[4] < heights[0])
    check("the legend has the names", browser.texts("#time .legend li") == ["L0H0", "<b>L1H0</b>"])
    texts = browser.texts("#time svg[role=img] text")
    check(f"axes have ticks and names: {texts}", {"−1", "0", "1", "100", "400", "step", "nats"} <= set(texts))
    rows = copied(browser, "#time .tools a")
    check("CSV of a chart", rows[0] == ["line", "step", "nats"] and rows[5] == ["<b>L1H0</b>", "200", ""] and len(rows) == 7)
    edges = browser.run("return [...document.querySelectorAll('#edges .edge')].map((e) => { const s = getComputedStyle(e);"
                        "return [s.strokeWidth, s.stroke, e.textContent]; })")
    orange, blue = "rgb(196, 78, 0)", "rgb(38, 118, 195)"
    check(f"edges have their widths and the colors of their signs: {edges}", edges == [["9px", orange, "a: 5"],
          ["4.2px", blue, "b: −2"], ["2.6px", orange, "c: 1"]])
    places = browser.run("return [...document.querySelectorAll('#edges .node')].map((e) => [e.textContent, Number(e.getAttribute('x')), Number(e.getAttribute('y'))])")
    check(f"nodes are at their columns and rows: {places}", [p[0] for p in places] == ["embed", "L0H0", "logits"] and
          places[1][1] < places[0][1] == places[2][1] and places[0][2] < places[1][2] < places[2][2])


def check_themes(browser):
    script = ("const map = document.querySelector('canvas.map'); const sharp = map.width / map.clientWidth;"
              "const one = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});"
              "one.drawImage(map, 12 * sharp - map.width, -12 * sharp);"
              "return getComputedStyle(document.body).backgroundColor + ' ' + one.getImageData(0, 0, 1, 1).data")
    expect = lambda what, colors: check(what, browser.wait(f"{script} === '{colors}'"))  # the page changes its theme a frame later
    browser.screen(1280, 1000, dark=True)
    expect("the theme is dark if the system's theme is", "rgb(20, 23, 28) 75,81,91,255")
    browser.run("window.addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    browser.run("document.querySelectorAll('.section').forEach((d) => (d.open = false))")
    pdf = base64.b64decode(browser.devtools("Page.printToPDF", printBackground=True)["data"])
    check("the page can be printed", pdf.startswith(b"%PDF") and len(pdf) > 20000)
    check("it is printed in the light theme, with all sections", browser.run("return window.printed") == "light"
          and browser.run("return [...document.querySelectorAll('.section')].every((d) => d.open)"))
    expect("the theme is dark again after printing", "rgb(20, 23, 28) 75,81,91,255")
    browser.choose("Theme", "light")
    expect("the theme is light if selected", "rgb(255, 255, 255) 187,187,187,255")


# --- scale and mask
VIRIDIS = ("440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 "
           "fde725").split()
ORANGE = "ffffff ffdfce fdc1a4 f3a47c e58856 d66b31 c44e00".split()
BLUE = "ffffff dee7fa bfcff1 9fb7e6 7da1db 598bcf 2676c3".split()
GRAY = [187, 187, 187]



def color_of(value, limit, curve, signed):
    """Returns the expected color of a value in the light theme."""
    if value is None:
        return GRAY
    share = min(abs(value) / limit, 1) ** (0.5 if curve == "root" else 1)
    ramp = (ORANGE if value > 0 else BLUE) if signed else VIRIDIS
    at = share * (len(ramp) - 1)
    low = min(int(at), len(ramp) - 2)
    colors = [[int(ramp[k][c:c + 2], 16) for c in (0, 2, 4)] for k in (low, low + 1)]
    return [a + (b - a) * (at - low) for a, b in zip(*colors)]


def check_colors(browser, what, panels, limit, curve, signed, css=".maps:not(.routes *) .panels canvas"):
    """Checks the colors of all cells of small maps. `panels` has for each map its value by row and column."""
    pixels = browser.run("return [...document.querySelectorAll(arguments[0])].map((c) => [c.width, "
                         "[...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]])", css)
    check(f"{what}: every panel has a map", len(pixels) == len(panels))
    wrong = []
    for k, ((columns, data), value) in enumerate(zip(pixels, panels)):
        for at in range(len(data) // 4):
            i, j = divmod(at, columns)
            expected = color_of(value(i, j), limit, curve, signed)
            if max(abs(a - b) for a, b in zip(data[4 * at:], expected)) > 2.5:
                wrong.append((k, i, j, data[4 * at:][:3], expected))
    check(f"{what}: each cell has its color, and masked cells are gray; wrong: {wrong[:3]}", not wrong)


def check_scale(browser, path):
    browser.open(path)
    heads = [(p, l, h) for p in range(2) for l in range(2) for h in range(2)]
    panels = [[lambda i, j, q=q, at=at: value_of(q, at[0], 2, at[1], at[2], i, j) if j <= i else None for at in heads] for q in range(3)]
    limits = [max(abs(panel(i, j)) for panel in panels[q] for i in range(12) for j in range(i + 1)) for q in range(3)]
    ticks = lambda: [number(text) for text in browser.texts(".pane:first-of-type .large .ticks span")[:5]]
    css = ".pane > .maps .panels canvas"
    check("the scale of A ends at 0 and 1", ticks() == [0, 0.25, 0.5, 0.75, 1])
    check_colors(browser, "A", panels[0], 1, "linear", False, css)
    browser.choose("Signed maps", "root scale")
    check_colors(browser, "A, which has no sign", panels[0], 1, "linear", False, css)
    for curve in ("linear", "root"):
        browser.choose("Signed maps", curve + " scale")
        check_colors(browser, "a section's maps", [lambda i, j, k=k: panel_value(k, i, j) for k in range(2)], SECTION_LIMIT, curve,
                     True, "#patching .panels canvas")
        for q, title in ((1, "dL/dA"), (2, "dL/dS")):
            browser.choose("Show", title)
            check_colors(browser, title, panels[q], limits[q], curve, True, css)
            check(f"the scale of {title} ends at its largest magnitude", same(ticks()[4], limits[q]) and same(ticks()[0], -limits[q]))
            check("the bar names the scale", f"{curve} scale" in browser.text(".large .bar"))
            faint = [text.split(" ")[0] for text in browser.texts(".pane > .maps .panels span") if "below 2 %" in text]
            check(f"the small maps below 2 % of the limit of {title}: {faint}", faint == (["L0H1"] * 2 if q == 1 else []))
    browser.choose("Show", "dL/dA")
    browser.click(".panels label", 1)
    check("the title states that a map is below 2 % of the limit", "below 2 % of the color scale's limit" in browser.text(".large h4"))


def check_heads_table(browser, path):
    browser.open(path)
    table = ".pane:first-of-type .heads-table "
    heads = lambda: browser.texts(table + "tbody th")
    titles = browser.texts(table + "thead th")
    check(f"the main numbers are first: {titles}", len(titles) == 13 and titles[:6] == ["head", "induction", "neededof L", "sufficesof L",
          "mark", "entropyshare of log(visible keys)"])
    row = browser.texts(table + "tbody tr:nth-child(3) td")[:5]
    check(f"each number is in its column: {row}", row == ["0.250", "0.500", "0.250", "reversed", "10"])
    browser.focus(".heads-table .sort", 1)
    browser.press("Enter", "Space")
    check("a key on a title sorts; missing values are last", heads() == ["L0H0", "L1H0", "L0H1", "L1H1"])
    browser.focus("#checkpoint")
    browser.press("Left")
    check("the table stays sorted when it changes", heads() == ["L0H0", "L1H0", "L0H1", "L1H1"])
    check("all numbers are described below", "the column 4" in browser.text("#definitions"))
    rows = copied(browser, ".heads-table .tools a")
    check("CSV of the heads has all columns", len(rows) == 5 and len(rows[0]) == 13 and rows[3][4] == "reversed")


def check_reads(browser, path, data, block=1):
    """Checks the text with the five largest weights of each query, and the shading of the tokens."""
    browser.open(path)
    browser.click(".panels label", 2)
    pane = data["panes"][0]
    shown = [visible(text) for text in pane.get("texts", pane["tokens"])]

    def place(j):
        last = min(block * (j + 1), pane["length"]) - 1
        between = " " if any(len(text) > 1 for text in pane.get("texts", [])[block * j:last + 1]) else ""
        return f"{between.join(shown[block * j:last + 1])} at {block * j}" + (f"–{last}" if block > 1 else "")

    browser.focus("canvas.map")
    browser.press(*["Up"] * 12)
    for token in range(len(pane["tokens"])):
        weights = [value_of(0, 0, len(pane["checkpoints"]) - 1, 1, 0, token, j) for j in range(token + 1)]
        texts = [f"{place(j)} ({weights[j]:.2g})" for j in sorted(range(token + 1), key=lambda j: -weights[j])[:5]]
        names = lambda text: re.sub(r"\([^ ]*?\)", "", text)  # without the weights, which have two digits
        text = browser.text(".reads")
        check(f"the keys that the head reads: {text}", names(", ".join(texts)) in names(text) and text.startswith("L1H0 at "))
        shares = browser.run("return [...document.querySelectorAll('.pane:first-of-type .token')].map((t) => Number(t.style.getPropertyValue('--share')))")
        check("tokens are shaded by their weights", all(abs(x - w) < 1e-4 for x, w in zip(shares, weights)) and not any(shares[token + 1:]))
        browser.press("Down")
    check("the weights of blocks are explained", ("largest weight of each block" in text) == (block > 1))
    browser.press(*["Up"] * 12, "Down", "Down", "Home", "Right")
    check("the text of a cell names its tokens", ("key 2–3 “␣\\n”" if block > 1 else "key 1 “a”") in browser.text("output.readout"))


def visible(token):
    return {"\n": "\\n"}.get(token, token.replace(" ", "␣"))


def check_circuits(browser, path):
    browser.open(path)
    text = browser.run("return document.body.innerText")
    check("a page without panes shows its sections", "Tokens in texts" in text and browser.texts("canvas.map"))
    check("a page of circuits has no texts about gradients, tokens and L", not any(words in text for words in ("gradient", "L =")))


def check_plain(browser, path):
    browser.open(path)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    text = browser.run("return document.body.innerText")
    found = [word for word in ("What the heads do", "Routes", "Marks compare", "reversed", "Checkpoint", "needed\n", "Loss", "measured change",
                               "through K", "undefined", "null", "NaN", "heed study\n") if word in text]
    check(f"no text is about a thing that the page does not have: {found}", not found)
    check("the words that are not on this page are searched rightly", "Numbers of the heads" in text and "Escape" in text)
    browser.choose("Show", "dL/dA")
    panels = [lambda i, j, l=l, h=h: windowed(l, h, i, j) if j <= i else None for l in range(2) for h in range(2)]
    limit = max(max(abs(panel(i, j) or 0) for panel in panels for i in range(6) for j in range(6)),
                max(abs(value_of(1, 1, 0, 0, h, i, j)) for h in range(2) for i in range(6) for j in range(i + 1)))
    check_colors(browser, "a window", panels, limit, "linear", True, ".pane:first-of-type .panels canvas")
    browser.click(".panels label", 3)
    check("a head that the other run does not have", "not stored" in pane_text(browser, "output.readout", 1)
          and browser.text(".large h4") == "L1H1: dL/dA")


# --- accessibility
CONTRASTS = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const rgba = (css) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].map((x) => x / 255);
};
const over = (top, below) => [0, 1, 2].map((c) => top[c] * top[3] + below[c] * (1 - top[3]));
const behind = (e) => {
  const color = rgba(getComputedStyle(e).backgroundColor);
  return color[3] === 1 || !e.parentElement ? color.slice(0, 3) : over(color, behind(e.parentElement));
};
const light = (rgb) => rgb.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
  .reduce((sum, x, c) => sum + x * [0.2126, 0.7152, 0.0722][c], 0);
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const found = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || e.tagName === "SELECT";
  if (!own || !e.checkVisibility() || e.closest("option, script, noscript, style")) continue;
  const back = behind(e);
  found.push([contrast(over(rgba(getComputedStyle(e).color), back), back), e.tagName + "." + e.className + " " + e.textContent.slice(0, 30)]);
}
const root = getComputedStyle(document.documentElement);
for (const name of ["--text", "--muted"]) found.push([contrast(rgba(root.getPropertyValue(name)).slice(0, 3), behind(document.body)), "canvas " + name]);
return found;
"""



def check_contrast(browser, path):
    for dark in (False, True):
        browser.screen(1280, 1000, dark)
        browser.open(path)
        browser.choose("Show", "dL/dA")  # has a map below 2 % of the limit
        browser.click(".heads-table .sort", 1)
        browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        browser.wait("return document.querySelector('#edges .numbers td')")
        found = browser.run(CONTRASTS)
        faults = sorted({(ratio, text) for ratio, text in found if ratio is None or ratio < 4.5}, key=str)
        check(f"each text has a contrast of 4.5, {'dark' if dark else 'light'} theme: {faults[:5]}", not faults and len(found) > 300)
    browser.screen(1280, 1000)


def check_keyboard(browser, path):
    """Checks that Tab reaches every control, or one control of a group, in which arrow keys move."""
    browser.open(path)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true));"
                "document.addEventListener('focusin', (event) => event.target.reached = true); document.activeElement.blur()")
    browser.wait("return document.querySelector('#edges .numbers td')")
    for _ in range(12):
        browser.press(*["Tab"] * 20)
    missed = browser.run("return [...document.querySelectorAll('a, button, select, input, summary, canvas.map, [tabindex=\"0\"]')]"
                         ".filter((e) => e.checkVisibility() && !e.reached && !e.closest('[role=radiogroup]'))"
                         ".map((e) => e.outerHTML.slice(0, 100))")
    check(f"Tab reaches every control: {missed[:5]}", not missed)
    groups = browser.run("return [...document.querySelectorAll('[role=radiogroup]')].map((g) => [...g.querySelectorAll('input')].filter((e) => e.reached).length)")
    check(f"Tab reaches one small map of each group: {groups}", groups == [1] * 5)
    names = browser.run("return [...document.querySelectorAll('a, button, select, input, canvas.map, [role=region]')].filter((e) => "
                        "!(e.ariaLabel || e.textContent.trim() || e.closest('label')?.textContent.trim())).length")
    check("every control has a name", names == 0)
    check("no focusable element is hidden", browser.run("return [...document.querySelectorAll('[aria-hidden]')].every((e) => e.tabIndex < 0"
          " && !e.querySelector('button, input, select, [tabindex]'))"))


def check_phone(browser, paths):
    """Checks widths and overlaps at 400 pixels, and that a table that scrolls shows that it does."""
    browser.screen(400, 800)
    for name in ("circuits", "blocks", "two"):
        browser.open(paths[name])
        browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        browser.wait("return [...document.querySelectorAll('.numbers')].every((d) => d.querySelector('th'))")
        widths = browser.run("return [document.documentElement.scrollWidth, window.innerWidth, document.querySelector('canvas.map').clientWidth]")
        check(f"nothing is wider than the screen of a phone, {widths}", widths[0] <= 400 and widths[1] == 400 and 300 < widths[2] <= 400)
        overlaps = browser.run("const boxes = [...document.querySelectorAll('.view, .section > *, #summary, #controls, #about')].map((e) => [e, e.getBoundingClientRect()]);"
                               "return boxes.flatMap(([a, p]) => boxes.filter(([b, q]) => a !== b && !a.contains(b) && !b.contains(a) && p.height && q.height"
                               " && p.top < q.bottom - 1 && q.top < p.bottom - 1 && p.left < q.right - 1 && q.left < p.right - 1)"
                               ".map(([b]) => a.className + '|' + b.className))")
        check(f"no view overlaps another one: {overlaps[:3]}", not overlaps)
    shot = ("const s = document.querySelector('.heads-table .scroll'); s.scrollIntoView({block: 'center'}); s.scrollLeft = arguments[0];"
            "const b = s.getBoundingClientRect(); return [b.left, b.top, b.width, s.scrollWidth]")
    for at, shaded in ((0, (False, True)), (10000, (True, False))):
        left, top, width, scrolled = browser.run(shot, at)
        edges = tuple(colors_right_of(browser, x, top + 1) > 3 for x in (left, left + width - 12))
        check(f"a shadow shows at which side a table continues: {edges}", edges == shaded and scrolled > width + 20)
    check("a table that scrolls has a name that says so", "scrolls sideways" in browser.run("return document.querySelector('.scroll').ariaLabel"))
    browser.screen(1280, 1000)


def colors_right_of(browser, x, y):
    """Returns how many colors the 12 pixels of the screen have that begin at (x, y)."""
    return browser.run("const image = new Image(); image.src = 'data:image/png;base64,' + arguments[0]; await image.decode();"
                       "const one = new OffscreenCanvas(12, 1).getContext('2d'); one.drawImage(image, -arguments[1], -arguments[2]);"
                       "const d = new Uint32Array(one.getImageData(0, 0, 12, 1).data.buffer); return new Set(d).size",
                       browser.send("GET", "/screenshot"), int(x), int(y))


def check_quiet(browser, path):
    trouble = [entry["message"] for entry in browser.log("browser")]
    check(f"the console is empty: {trouble}", not trouble)
    urls = [message["params"]["request"]["url"] for entry in browser.log("performance")
            for message in [json.loads(entry["message"])["message"]] if message["method"] == "Network.requestWillBeSent"]
    check(f"the page was loaded: {urls}", "file://" + path in urls)
    foreign = [url for url in urls if url != "file://" + path and not url.startswith("data:")]
    check(f"nothing else was requested: {foreign}", not foreign)
    check("the page itself counts no requests", browser.run("return performance.getEntriesByType('resource').length") == 0)




def test_in(browser, folder):
    data = {"two": made_up(HOSTILE), "plain": made_up_plain(), "blocks": made_up_blocks(), "circuits": made_up_circuits()}
    paths = {name: os.path.join(folder, name + ".html") for name in data}
    for name, path in paths.items():
        with open(path, "wb") as file:
            file.write(subprocess.run([sys.argv[1]], input=json.dumps(data[name]).encode(), stdout=subprocess.PIPE, check=True).stdout)
    path = paths["two"]
    browser.screen(1280, 1000)
    browser.open(path)
    check_texts(browser, data["two"])
    check_sections(browser)
    check_slider(browser)
    check_routes(browser, data["two"])
    check_numbers(browser, folder)
    check_themes(browser)
    check_quiet(browser, path)
    browser.screen(1280, 1000)
    check_cells(browser, data["two"])
    check_scale(browser, path)
    check_heads_table(browser, path)
    for name, block in (("two", 1), ("blocks", 2)):
        check_reads(browser, paths[name], data[name], block)
    check_plain(browser, paths["plain"])
    check_circuits(browser, paths["circuits"])
    check_contrast(browser, path)
    check_keyboard(browser, path)
    check_phone(browser, paths)
    errors = [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"]
    check(f"no page has errors: {errors}", not errors)


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
