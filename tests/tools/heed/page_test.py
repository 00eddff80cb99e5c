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
        "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Shift": "\ue008", "Release": "\ue000"}


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

    def open(self, path, address=""):
        self.send("POST", "/url", {"url": "about:blank"})
        self.log("performance")  # discards the requests of the browser's first page
        self.send("POST", "/url", {"url": "file://" + path + address})

    def run(self, script, *arguments):
        return self.send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css, index=0):
        return self.send("POST", "/elements", {"using": "css selector", "value": css})[index]

    def click(self, css, index=0):
        element = self.find(css, index)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)  # the controls then do not cover it
        self.send("POST", f"/element/{element[ELEMENT]}/click", {})

    def focus(self, css, index=0):
        self.run("arguments[0].focus()", self.find(css, index))

    def press(self, *names):
        strokes = []
        for name in names:
            keys = [KEYS.get(key, key) for key in name.split("+")]
            strokes += [{"type": "keyDown", "value": key} for key in keys]
            strokes += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def hover(self, css, x, y, index=0, press=False):
        """Moves the pointer to (x, y), in pixels from the top left corner of the element. Clicks if `press` is true."""
        element = self.find(css, index)
        box = self.run("arguments[0].scrollIntoView({block: 'center'}); const b = arguments[0].getBoundingClientRect();"
                       "return [b.left, b.top]", element)
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

    def wait(self, script, seconds=300):
        """Waits until a script returns a true value. Returns the last value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)) and time.monotonic() < end:
            time.sleep(0.02)
        return value

    def address(self):
        """Returns the parts of the page's address. Waits until the page has written it, some time after a change."""
        self.wait("return location.hash.slice(1) === String(new URLSearchParams(Object.entries(addressParts)"
                  ".map(([name, { text }]) => [name, text()])))", seconds=30)
        return dict(part.split("=") for part in self.run("return location.hash")[1:].split("&"))

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
    return size * math.sin(1 + 3 * i + 7 * j + layer + 2 * head + 11 * checkpoint + pane) ** 5 / (quantity * 10)


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
        routes.append({"total": [0.1 * (n - 1 - t) / n for t in range(n)], "parts": parts,
                       "from": maps(2)[l * heads:(l + 1) * heads] if complete else []})
    reports = [{"layer": l, "head": h, "values": [SCORES[l][h], None if h else 0.125 * (l + 1), 1e-5 * (m + 1), *range(6)],
                "needed": 0.5 * l - h, "suffices": 0.25, "predicted": 0.125,
                "mark": "reversed" if (l, h) == (1, 0) else "-", "importance": 0.01 * (l + 1) * (1 - 2 * h)}
               for l in range(layers) for h in range(heads)]
    names = ["hook_pattern", "hook_pattern_grad", "hook_attn_scores_grad"]
    return {"step": step, "value": 2.5 / (m + 1), "heads": reports, "routes": routes,
            "maps": {name: maps(q) for q, name in enumerate(names) if complete or q != 1}}


SCORES = ((0.25, -0.5), (10, 9.5))  # the first column of the table of heads


def made_up(tokens, layers=2, heads=2, panes=2, steps=(0, 200, 400)):
    n = len(tokens)
    return {
        "summary": ["L1H0 and L1H1 are induction heads.", "Without them 3 % of L is left."],
        "claims": [{"text": "not shown", "head": "L1H0"}],
        "heed": "0.1.0", "title": "Study of <b>induction</b>", "command": "heed study runs/a runs/b --prompt '<ab>'",
        "quantities": QUANTITIES,
        "head_columns": [{"name": "entropy", "unit": "share of log(visible keys)", "what": "of the weights"},
                         {"name": "induction", "unit": "", "what": "weight on what followed the copy"},
                         {"name": "|dL/dq|", "unit": "nats", "what": "norm"},
                         *({"name": f"other_{k}", "unit": "", "what": f"the column {k}"} for k in range(6))],
        "panes": [{"name": f"runs/{'abc'[p]}", "hash": "1a2b3c4d", "objective": "the loss", "tokens": tokens,
                   "length": n, "block": 1, "layers": layers, "heads": heads,
                   "cells": [{"layer": 0, "head": 1, "query": 3, "key": 2, "effect": -0.75}],
                   "checkpoints": [made_up_checkpoint(p, m, step, layers, heads, n, m == len(steps) - 1)
                               for m, step in enumerate(steps)]} for p in range(panes)],
        "tables": [{"title": "Ablation", "what": "What cutting a head costs.",
                    "columns": [{"name": "head", "unit": ""}, {"name": "zero", "unit": "nats"}],
                    "rows": [["L0H0", 0.5], ["L1H0", -1.25]]},
                   {"title": "Tokens", "what": "Tokens of several kinds.",
                    "columns": [{"name": "place", "unit": ""}, {"name": "token", "unit": ""}, {"name": "rank", "unit": ""}],
                    "rows": [["L10 z at 2 ( )", " ", 2], ["L2 z at 3 (\n)", "\n", 10], ["L1 z at 1", " the  end\t", None],
                             ["L3 z", "\u00a0\u200b\r\x0b", 3]]}]}


def made_up_plain():
    """Returns a page without routes, checkpoints, measured cuts, saturated heads, a summary and tables. The mask of its
    gradients hides keys that are three or more tokens before the query."""
    data = made_up(["^", *"abcab"], panes=1, steps=(None,))
    for key in ("summary", "tables"):
        del data[key]
    checkpoint = data["panes"][0]["checkpoints"][0]
    del checkpoint["routes"]
    for report in checkpoint["heads"]:
        for key in ("needed", "suffices", "predicted", "mark"):
            report.pop(key, None)
    checkpoint["maps"]["hook_pattern_grad"] = [encoded(l, h, 6, lambda i, j: windowed(l, h, i, j)) for l in range(2) for h in range(2)]
    return data


def windowed(layer, head, i, j):
    return value_of(1, 0, 0, layer, head, i, j) if i - j < 3 else None


def made_up_three():
    """Returns a page with two runs and their differences, which have no table of heads."""
    data = made_up(["^", *"abcab"], panes=3, steps=(None,))
    difference = data["panes"][2]
    difference["name"] = "B - A"
    checkpoint = difference["checkpoints"][0]
    checkpoint["maps"] = {q["name"]: [encoded(l, h, 6, lambda i, j: value_of(k, 1, 0, l, h, i, j) - value_of(k, 0, 0, l, h, i, j))
                                      for l in range(2) for h in range(2)] for k, q in enumerate(QUANTITIES)}
    del checkpoint["heads"], checkpoint["routes"]
    return data


def made_up_blocks():
    """Returns a page whose cells cover 2 x 2 tokens of a sequence of 11 tokens."""
    data = made_up([f"{t}-{min(t + 1, 10)}" for t in range(0, 11, 2)], panes=1, steps=(None,))
    data["panes"][0].update(length=11, block=2, texts=HOSTILE[:11])
    return data


# --- checks
failures = []


def check(what, holds):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def number(text):
    return float(text.replace("−", "-"))


def cell_read(browser, pane=0):
    """Reads the text that the page shows for the cell at the cursor. Returns (head, query, key, {title: value or None})."""
    text = browser.text(".pane:nth-of-type(%d) output.readout" % (pane + 1))
    found = re.match(r"(L\d+H\d+), query (\d+) “.*?”, key (\d+) “.*?”: (.*)$", text, re.S)
    check(f"the text has the expected form: {text!r}", found)
    if not found:
        return "", -1, -1, {}
    values = {}
    for part in found[4].split(", "):
        title = part.split(" ")[0]
        values[title] = number(part.split("= ")[1]) if "= " in part else None
    return found[1], int(found[2]), int(found[3]), values


def same(got, wanted):
    """Returns True if two numbers are equal in the three digits that the page shows."""
    return got is not None and abs(got - wanted) <= 0.006 * abs(wanted) + 1e-5


def check_hover(browser):
    size = browser.run("const b = document.querySelector('canvas.map').getBoundingClientRect(); return [b.width, b.height]")
    browser.hover("canvas.map", size[0] * 0.3, size[1] * 0.7)
    head, query, key, values = cell_read(browser)
    check(f"the lower left has a late query and an early key, got {query}, {key}", 0 < key < 5 < query)
    check("the hovered cell's A", same(values.get("A"), value_of(0, 0, 2, int(head[1]), int(head[3]), query, key)))
    check("the hovered cell's dL/dS", same(values.get("dL/dS"), value_of(2, 0, 2, int(head[1]), int(head[3]), query, key)))
    other = cell_read(browser, 1)
    check("the other pane shows the same cell", other[:3] == (head, query, key))
    check("the other pane shows its own number", same(other[3].get("A"), value_of(0, 1, 2, int(head[1]), int(head[3]), query, key)))
    browser.hover("canvas.map", size[0] - 6, 3)
    text = browser.text("output.readout")
    check(f"the upper right corner is the first query and the last key, masked: {text}",
          "query 0 " in text and "key 11 " in text and "A masked" in text)


def check_keys(browser):
    browser.focus("canvas.map")
    browser.press(*["Up"] * 12, *["Down"] * 9, "Home", "Right", "Right")
    head, query, key, _ = cell_read(browser)
    check(f"arrows and Home move the cursor, to {query}, {key}", (query, key) == (9, 2))
    browser.press("End")
    check("End moves to the last visible key of the row", cell_read(browser)[2] == 9)
    browser.press("Left", "Left", "Enter")
    check("Enter shows the routes of the key's token",
          browser.text(".tokens [aria-pressed=true]") == HOSTILE[7] and "token 7 " in browser.text(".routes h3"))
    browser.press("Shift+Enter")
    check("Shift+Enter shows the routes of the query's token", "token 9 " in browser.text(".routes h3"))
    browser.press("l", "h")
    other = f"L{(int(head[1]) + 1) % 2}H{(int(head[3]) + 1) % 2}"
    check("l and h change layer and head", cell_read(browser)[0] == other)
    browser.press("Shift+H", "Shift+L")
    check("Shift+L and Shift+H change them back", cell_read(browser)[0] == head)
    browser.press("q")
    check("q changes the quantity", "dL/dA" in browser.text(".one-head h3"))
    check("the scale is linear at first", "linear scale" in browser.text(".one-head .bar"))
    browser.press("s")
    check("s changes the scale", "root scale" in browser.text(".one-head .bar"))
    browser.press("Shift+S", "Shift+Q")
    check("Shift+S changes it back", "linear scale" in browser.text(".one-head .bar"))
    browser.press("?")
    check("? shows the list of keys", browser.run("return document.getElementById('help').open"))
    browser.press("Escape")
    check("Escape closes the list of keys", not browser.run("return document.getElementById('help').open"))


def check_slider(browser, data):
    browser.focus("#checkpoint")
    browser.press("Left")
    check("the slider moves to the previous checkpoint", "step 200 (2 of 3)" in browser.text("#controls output"))
    check("the value of L is that of the checkpoint", "1.25" in browser.text(".pane p"))
    head, query, key, values = cell_read(browser)
    check("the cell shows the value of the checkpoint", same(values.get("A"), value_of(0, 0, 1, int(head[1]), int(head[3]), query, key)))
    check("the text of a map that is not stored says so", "dL/dA not stored" in browser.text("output.readout"))
    check("the other pane shows the same checkpoint", "1.25" in browser.text(".pane:nth-of-type(2) p"))
    browser.press("Right")
    check("the slider moves back", "step 400" in browser.text("#controls output"))


def check_routes(browser, data):
    browser.click(".heads button", 3)
    check("a click on a small map selects its head", browser.text(".one-head h3").startswith("L1H1"))
    browser.focus(".heads button[aria-pressed=true]")
    browser.press("Up", "Left", "Down", "Right")
    check("arrow keys move from head to head", browser.text(".one-head h3").startswith("L1H1"))
    browser.click(".tokens button", 1)
    check("a click on a token shows its routes", "token 1 “a”" in browser.text(".routes h3"))
    route = data["panes"][0]["checkpoints"][2]["routes"][1]
    shown = browser.run("return [...document.querySelectorAll('.routes .parts')[0].children].map((e) => e.textContent)")
    names, shares = shown[0::3], [number(text.split(" ")[0]) / 100 for text in shown[2::3]]
    check("every route is shown", names == [part["name"] for part in route["parts"]])
    check("every route has its share", all(abs(x - part["share"][1]) < 1e-3 for x, part in zip(shares, route["parts"])))
    widths = browser.run("return [...document.querySelector('.routes .parts').querySelectorAll('i')].map((e) => parseFloat(e.style.width))")
    sizes = [abs(part["share"][1]) for part in route["parts"]]
    check("the bars are proportional to the shares", all(abs(w / max(widths) - s / max(sizes)) < 1e-3 for w, s in zip(widths, sizes)))
    check("the shares sum to 1", abs(sum(shares) - 1) < 5e-3)
    top = max(route["parts"], key=lambda part: abs(part["share"][1]))["name"]
    check("the text names the largest route", ("MLP" if top == "mlp" else top.split(".")[0]) in browser.text(".routes p"))
    flow = [sum(abs(value_of(2, 0, 2, 1, h, i, 1)) for h in range(2)) for i in range(1, 12)]
    check("the text names the query that contributes most", f"of all queries, {1 + flow.index(max(flow))} " in browser.text(".routes p"))
    shaded = browser.run("return [...document.querySelectorAll('.pane:first-of-type .tokens button')].map((b) => Number(b.style.getPropertyValue('--share')))")
    check("the tokens are shaded by their contribution", shaded[0] == 0 and shaded.index(1) == 1 + flow.index(max(flow)))
    browser.focus(".routes canvas.map")
    browser.press("Home", "Right")
    readout = browser.text(".routes output")
    check("the text of a cell of the routes: " + readout, same(number(re.search(r": (\S+),", readout)[1]),
          value_of(2, 0, 2, 1, int(readout[3]), 2, 1)))
    browser.press("Enter")
    check("Enter on the map of routes selects the cell", cell_read(browser)[1:3] == (2, 1))
    browser.click(".tokens button", 11)
    check("a token without gradient has a text that says so", "No gradient arrives" in browser.text(".routes p"))
    browser.press("Left")
    check("arrow keys move from token to token", "token 10 " in browser.text(".routes h3"))


def copied(browser, css):
    browser.run("window.copied = null; Object.defineProperty(navigator, 'clipboard', {configurable: true, value:"
                "{writeText: async (text) => { window.copied = text; }}})")
    browser.click(css)
    return list(csv.reader(io.StringIO(browser.run("return window.copied"), newline="")))


def check_numbers(browser, data):
    rows = copied(browser, ".overview .tools button")
    check("CSV of all heads: a row for each visible cell", len(rows) == 1 + 4 * 78)
    good = all(abs(float(x) - value_of(0, 0, 2, int(head[1]), int(head[3]), int(i), int(j))) < 1e-4
               and ti == HOSTILE[int(i)] and tj == HOSTILE[int(j)] for head, i, ti, j, tj, x in rows[1:])
    check("CSV of all heads: the numbers and tokens", good)
    head = browser.text(".one-head h3")
    rows = copied(browser, ".one-head .tools button")
    check("CSV of the map", len(rows) == 13 and all(len(row) == 13 for row in rows) and rows[1][2] == "")
    check("the page confirms that it copied", "Copied 12 rows" in browser.text("#status"))
    rows = copied(browser, ".routes .tools button")
    check("CSV of the routes: every layer and route", len(rows) == 1 + 2 * 9)
    check("CSV of the tables", copied(browser, "#tables .tools button") == [["head", "zero (nats)"], ["L0H0", "0.5"], ["L1H0", "-1.25"]])
    browser.click("#controls button", 0)
    count = "return [...document.querySelectorAll('details.numbers')].map((d) => d.querySelectorAll('td').length)"
    end = time.monotonic() + 300  # <details> sends its toggle event later
    while min(views := browser.run(count)) == 0 and time.monotonic() < end:
        time.sleep(0.02)
    check(f"every view has a table: {views}", len(views) == 2 * 4 and min(views) > 0)
    cell = browser.run("return document.querySelectorAll('.one-head details tbody tr')[11].querySelectorAll('td')[0].textContent")
    check("a table's number", same(number(cell), value_of(0, 0, 2, int(head[1]), int(head[3]), 11, 0)))
    browser.click("#controls button", 0)


def check_texts(browser, data):
    check("the document's title is that of the study", browser.run("return document.title") == data["title"])
    check("the title is text", browser.text("h1") == data["title"] and not browser.run("return document.querySelector('h1 b')"))
    check("no token is executed as code", browser.run("return window.broken === undefined && !document.querySelector('img')"))
    tokens = browser.run("return [...document.querySelectorAll('.tokens')[0].children].map((b) => b.textContent)")
    check("tokens are shown as text, with signs for spaces and newlines", tokens == ["^", "a", "␣", "\\n", *(t.replace(" ", "␣") for t in HOSTILE[4:])])
    marked = browser.run("return [...document.querySelectorAll('.pane:first-of-type .heads button')].map((b) => b.textContent.includes('reversed'))")
    check("only the head with a mark is marked", marked == [False, False, True, False])
    rows = browser.run("return [...document.querySelectorAll('.pane:first-of-type .heads-table tbody tr')].map((r) => r.textContent)")
    check("the table marks it, too", ["reversed" in row for row in rows] == marked)
    check("the mark is explained", "has the other sign" in browser.text("#marks-note"))


def background(browser):
    return browser.run("return getComputedStyle(document.body).backgroundColor")


def corner(browser):
    """Returns the color of a masked cell in the picture."""
    return browser.run("const map = document.querySelector('canvas.map'); const sharp = map.width / map.clientWidth;"
                       "const one = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});"
                       "one.drawImage(map, 12 * sharp - map.width, -12 * sharp);"
                       "return [...one.getImageData(0, 0, 1, 1).data]")


def colors(browser, expected, seconds=300):
    """Returns the colors of the background and of a masked cell. Waits up to `seconds` until they are `expected`,
    because the page changes its theme a frame later."""
    end = time.monotonic() + seconds
    while (found := (background(browser), corner(browser))) != expected and time.monotonic() < end:
        time.sleep(0.05)
    return found


def check_themes(browser):
    dark_colors = "rgb(20, 23, 28)", [75, 81, 91, 255]
    browser.screen(1280, 1000, dark=True)
    dark = colors(browser, dark_colors)
    check(f"the theme is dark if the system's theme is, {dark}", dark == dark_colors)
    browser.run("window.addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    pdf = base64.b64decode(browser.devtools("Page.printToPDF", printBackground=True)["data"])
    check("the page can be printed", pdf.startswith(b"%PDF") and len(pdf) > 20000)
    check("it is printed in the light theme", browser.run("return window.printed") == "light")
    check("the theme is dark again after printing", colors(browser, dark_colors) == dark_colors)
    browser.choose("Theme", "light")
    light = background(browser), corner(browser)
    check(f"the theme is light if selected, {light}", light == ("rgb(255, 255, 255)", [187, 187, 187, 255]))


# --- scale and mask
VIRIDIS = ("440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 "
           "fde725").split()
ORANGE = "ffffff ffdfce fdc1a4 f3a47c e58856 d66b31 c44e00".split()
BLUE = "ffffff dee7fa bfcff1 9fb7e6 7da1db 598bcf 2676c3".split()
GRAY = [187, 187, 187]


def color_of(value, limit, curve, signed):
    """Returns the expected color of a value in the light theme."""
    share = {"linear": lambda x: x, "root": math.sqrt, "logarithm": lambda x: math.log(1 + 1000 * x) / math.log(1001)}[curve](
        min(abs(value) / limit, 1))
    ramp = (ORANGE if value > 0 else BLUE) if signed else VIRIDIS
    at = share * (len(ramp) - 1)
    low = min(int(at), len(ramp) - 2)
    colors = [[int(ramp[k][c:c + 2], 16) for c in (0, 2, 4)] for k in (low, low + 1)]
    return [a + (b - a) * (at - low) for a, b in zip(*colors)]


def check_colors(browser, what, panels, limit_of, curve, signed):
    """Checks the colors of all cells of small maps. `panels` has for each map its value by query and key."""
    pixels = browser.run("return [...document.querySelectorAll('.heads canvas')].map((c) => "
                         "[...c.getContext('2d').getImageData(0, 0, c.width, c.height).data])")
    check(f"{what}: every head has a map", len(pixels) == len(panels))
    wrong = []
    for k, (data, value) in enumerate(zip(pixels, panels)):
        n = math.isqrt(len(data) // 4)
        for i in range(n):
            for j in range(n):
                got = data[4 * (i * n + j):][:3]
                visible = j <= i and value(i, j) is not None
                expected = color_of(value(i, j), limit_of(k), curve, signed) if visible else GRAY
                if max(abs(a - b) for a, b in zip(got, expected)) > 2.5:
                    wrong.append((k, i, j, got, expected))
    check(f"{what}: each cell has its color, and masked cells are gray; wrong: {wrong[:3]}", not wrong)


def check_scale(browser, path):
    browser.open(path)
    heads = [(p, l, h) for p in range(2) for l in range(2) for h in range(2)]
    panels = [[lambda i, j, q=q, at=at: value_of(q, at[0], 2, at[1], at[2], i, j) for at in heads] for q in range(3)]
    own = [[max(abs(panel(i, j)) for i in range(12) for j in range(i + 1)) for panel in panels[q]] for q in range(3)]
    ticks = lambda: [number(text) for text in browser.texts(".pane:first-of-type .one-head .ticks span")]
    faint = lambda: [text for text in browser.texts(".heads button") if "below 2 %" in text]
    check("the scale of A ends at 0 and 1", ticks() == [0, 0.25, 0.5, 0.75, 1])
    check_colors(browser, "A", panels[0], lambda k: 1, "linear", False)
    for q, title in ((1, "dL/dA"), (2, "dL/dS")):
        browser.choose("Show", title)
        check_colors(browser, title, panels[q], lambda k: max(own[q]), "linear", True)
        check(f"the scale of {title} ends at its largest magnitude", same(ticks()[4], max(own[q])) and same(ticks()[0], -max(own[q])))
        names = [text.split(" ")[0] for text in faint()]
        check(f"the small maps below 2 % of the limit of {title}: {names}", names == (["L0H1"] * 2 if q == 1 else []))
    browser.choose("Show", "dL/dA")
    browser.click(".heads button", 1)
    sentence = browser.text(".one-head > p")
    check(f"a sentence states that a map is below 2 % of the limit: {sentence}", "below 2 % of the color scale's limit" in sentence
          and same(number(re.search(r"is (\S+),", sentence)[1]), own[1][1]))
    for curve in ("root", "logarithm"):
        browser.choose("Color scale", curve)
        check_colors(browser, curve, panels[1], lambda k: max(own[1]), curve, True)
        check(f"the bar names the scale {curve}", curve in browser.text(".one-head .bar"))
    browser.choose("Color scale", "linear")
    browser.choose("Color range", "per panel")
    check_colors(browser, "per panel", panels[1], lambda k: own[1][k], "linear", True)
    check("no map is below its own limit", not faint() and browser.text(".one-head > p") == "")
    check("the scale of one panel ends at its own magnitude", same(ticks()[4], own[1][1]))


# --- the selected cell and the address
def check_pin(browser, path):
    browser.open(path)
    width, height = browser.run("const b = document.querySelector('canvas.map').getBoundingClientRect(); return [b.width, b.height]")
    away = lambda: browser.hover("h1", 2, 2)
    outlined = ("const c = document.querySelector('canvas.map'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                "let black = 0; for (let k = 0; k < d.length; k += 4) black += d[k] + d[k + 1] + d[k + 2] === 0 && d[k + 3] === 255; return black")
    browser.hover("canvas.map", width * 0.3, height * 0.7, press=True)
    pinned = cell_read(browser)
    browser.hover("canvas.map", width * 0.2, height * 0.3)
    hovered = cell_read(browser)
    check("a hover shows the values of another cell", hovered[1:3] != pinned[1:3])
    check("the other pane shows the cell under the pointer, too", cell_read(browser, 1)[1:3] == hovered[1:3])
    away()
    check("after a hover the clicked cell is shown again", cell_read(browser) == pinned)
    check("the address has the clicked cell", browser.address()["cell"] == f"{pinned[1]}-{pinned[2]}")
    browser.hover("canvas.map", width * 0.2, height * 0.3, press=True)
    away()
    check("another click selects another cell", cell_read(browser)[1:3] == hovered[1:3])
    check("the selected cell is outlined", browser.run(outlined) > 20)
    browser.press("?", "Escape")
    check("Escape in the list of keys keeps the selected cell", cell_read(browser)[1:3] == hovered[1:3])
    browser.press("Escape")
    check("Escape removes the selection", "No cell is selected" in browser.text("output.readout"))
    check("no cell is outlined then", browser.run(outlined) < 20)
    check("the address has no cell then", browser.address()["cell"] == "none")
    browser.hover("canvas.map", width * 0.3, height * 0.7)
    check("a hover shows a cell without a selection", cell_read(browser)[1:3] == pinned[1:3])
    browser.focus("canvas.map")
    browser.press("Up")
    check("an arrow key selects a cell, even under the pointer", cell_read(browser)[1:3] == (hovered[1] - 1, hovered[2]))
    away()
    check("the cell selected by key stays", cell_read(browser)[1:3] == (hovered[1] - 1, hovered[2]))


def check_address(browser, path):
    view = lambda: (browser.address(), browser.text(".one-head h3"), browser.text("output.readout"), browser.text(".routes h3"),
                    browser.text("#controls output"), browser.text(".one-head .bar"))
    browser.open(path)
    first = view()
    browser.click(".heads button", 2)
    browser.choose("Show", "dL/dS")
    browser.choose("Color scale", "root")
    browser.choose("Color range", "per panel")
    browser.focus("canvas.map")
    browser.press("Up", "Up", "Home", "Right", ",")
    browser.click(".tokens button", 5)
    seen = view()
    expected = {"head": "L1H0", "map": "hook_attn_scores_grad", "cell": "9-1", "token": "5", "checkpoint": "200",
                "range": "panel", "scale": "root"}
    check(f"the address describes the view: {seen[0]}", seen[0] == expected)
    browser.open(path)
    check("without an address the page shows its first view", view() == first)
    address = "#" + "&".join(f"{key}={value}" for key, value in expected.items())
    browser.open(path, address)
    check("a link shows the same view", view() == seen)
    readout = lambda: browser.text(".one-head .readout")
    browser.open(path, "#head=L0H1&cell=3-2")
    check(f"a measured cut of a cell is shown: {readout()}", readout().endswith("measured change = \u22120.750"))
    browser.open(path, "#head=L0H1&cell=4-2")
    check(f"the command for another cell is shown: {readout()}", '--cut "L0H1[4,2]"' in readout())
    for bad in ("#head=L9H9&map=none&cell=12-0&token=99&checkpoint=7&range=all&scale=big", "#%E0%A4%A&&==&cell", "#<b>",
                "#head=&map=__proto__&cell=-1--1&token=-1&checkpoint=&range=constructor&scale=toString", "#cell=1-2-3&token=1e0"):
        browser.open(path, bad)
        check(f"the malformed address {bad} is ignored", view() == first)
    browser.run("location.hash = arguments[0]", address)
    check("a changed address changes the view", view() == seen)
    browser.run("location.hash = '#cell=none'")
    check("a link can show a view without a selected cell", "No cell is selected" in view()[2])


# --- tables
def check_heads_table(browser, path):
    browser.open(path)
    titles = lambda: browser.texts(".pane:first-of-type .heads-table thead th")
    heads = lambda: [text.split(" ")[0] for text in browser.texts(".pane:first-of-type .heads-table tbody th")]
    sorts = lambda: browser.run("return [...document.querySelectorAll('.pane:first-of-type .heads-table thead th')].map((th) => th.ariaSort)")
    check(f"at most seven columns are in view: {titles()}", len(titles()) == 7 and titles()[0] == "head" and titles()[6].startswith("predicted"))
    check("a row has as many cells", len(browser.texts(".pane:first-of-type .heads-table tbody tr:first-child > *")) == 7)
    check("rows are in the order of the heads", heads() == ["L0H0", "L0H1", "L1H0", "L1H1"] and set(sorts()) == {None})
    browser.click(".heads-table th button.sort", 1)
    check("a click on a title sorts from the largest number", heads() == ["L1H0", "L1H1", "L0H0", "L0H1"] and sorts()[1] == "descending")
    browser.click(".heads-table th button.sort", 1)
    check("another click sorts from the smallest", heads() == ["L0H1", "L0H0", "L1H1", "L1H0"] and sorts()[1] == "ascending")
    browser.focus(".heads-table th button.sort", 2)
    browser.press("Enter")
    check("Enter on a title sorts", heads()[:2] == ["L1H0", "L0H0"] and sorts()[1:3] == [None, "descending"])
    browser.press("Space")
    check("missing values are last in both directions", heads()[:2] == ["L0H0", "L1H0"] and sorts()[2] == "ascending")
    browser.focus("#checkpoint")
    browser.press("Left")
    check("the table stays sorted when it changes", heads()[:2] == ["L0H0", "L1H0"] and sorts()[2] == "ascending")
    browser.click(".columns summary")
    boxes = browser.texts(".pane:first-of-type .columns label")
    check(f"the control offers every column with its description: {boxes}", len(boxes) == 12 and "other 5 the column 5" in boxes[8])
    check("a column not in view is not described below", "other 5" not in browser.text("#definitions"))
    browser.focus(".columns input", 8)
    browser.press("Space")
    check("a column can be added", len(titles()) == 8 and titles()[4] == "other 5")
    check("the other pane has the same columns", browser.texts(".pane:nth-of-type(2) .heads-table thead th") == titles())
    check("the column is described below", "the column 5" in browser.text("#definitions"))
    browser.press("Space")
    check("a column can be removed", len(titles()) == 7)
    rows = copied(browser, ".heads-table .tools button")
    check("CSV of the heads has all columns", len(rows) == 5 and len(rows[0]) == 14)


def check_tables(browser, path):
    browser.open(path)
    table = "#tables section:nth-of-type(2) "
    cells = lambda k: browser.texts(f"{table}tbody tr > :nth-child({k})")
    check(f"spaces and control characters in tables are visible: {cells(2)}", cells(2) == ["␣", "\\n", "␣the␣␣end\\t", "U+00A0U+200B\\r\\x0b"])
    check(f"a token inside a text is visible: {cells(1)}", cells(1) == ["L10 z at 2 (␣)", "L2 z at 3 (\\n)", "L1 z at 1", "L3 z"])
    browser.click(table + "button.sort", 2)
    check("a table of the study can be sorted", cells(3) == ["10", "3", "2", "–"])
    browser.click(table + "button.sort", 0)
    check("texts with numbers are sorted by the numbers", [text.split(" ")[0] for text in cells(1)] == ["L1", "L2", "L3", "L10"])
    check("the title states the direction", browser.run(f"return document.querySelector('{table}th').ariaSort") == "ascending")


# --- the tokens
def reads_of(row, name):
    """Returns the text of the five largest weights of a row."""
    keys = sorted(range(len(row)), key=lambda j: -row[j])[:5]
    return [(name(j), row[j]) for j in keys]


def check_reads(browser, path, data, block=1):
    browser.open(path, "#head=L1H0")
    pane = data["panes"][0]
    signs = {" ": "␣", "\n": "\\n"}
    shown = [signs.get(t, t) for t in pane.get("texts", pane["tokens"])]
    ranges = [(t, min(t + block, pane["length"]) - 1) for t in range(0, pane["length"], block)]
    def place(j):
        first, last = ranges[j]
        texts = [text.replace(" ", "␣") for text in shown[first:last + 1]]
        between = " " if any(len(text) > 2 for text in texts) else ""  # \\n has two characters
        return f"{between.join(texts)} at {first}" + (f"–{last}" if block > 1 else "")

    for token in (1, 4, len(ranges) - 1):
        browser.click(".tokens button", token)
        text = browser.text(".reads")
        found = re.findall(r"(?:: |, )(\S.*?) \(([0-9.e−]+)\)(?=, |;|$)", text)
        m = len(data["panes"][0]["checkpoints"]) - 1
        expected = reads_of([value_of(0, 0, m, 1, 0, token, j) for j in range(token + 1)], place)
        check(f"the keys that the head reads: {text}; expected {expected}", text.startswith("L1H0 at ") and
              [name for name, _ in found] == [name for name, _ in expected] and
              all(abs(number(x) - y) <= 0.06 * y for (_, x), (_, y) in zip(found, expected)))
        check("the weights of blocks are explained", ("largest weight of each block" in text) == (block > 1))
    if block == 1:
        browser.click(".heads button", 1)
        check("the text follows the head", browser.text(".reads").startswith("L0H1 at "))
    else:
        browser.focus("canvas.map")
        browser.press("Home", "Right")
        check("the text of a cell names the tokens of a block: " + browser.text("output.readout"),
              "key 2–3 “␣\\n”" in browser.text("output.readout"))


# --- pages with other contents
def circuit_value(distance, head, i, j):
    return math.sin(1 + distance + 2 * head + 3 * i + 7 * j)


def made_up_circuits():
    """Returns a page of circuits: the slider selects the distance of one quantity. One column of the other is masked."""
    maps = lambda distance: [encoded(0, h, 4, lambda i, j: circuit_value(distance, h, i, j), False) for h in range(2)]
    logits = [encoded(0, h, 4, lambda i, j: circuit_value(9, h, i, j) if j < 3 else None, False) for h in range(2)]
    quantity = lambda name, axes: {"name": name, "title": name.upper(), "unit": "", "signed": True, "what": "a map", "axes": axes}
    return {"heed": "0", "title": "circuits", "command": "heed study --circuits", "head_columns": [], "tables": [],
            "step_name": "distance", "first_checkpoint": 1,
            "quantities": [quantity("qk", ["query's token", "key's token"]), quantity("ov", ["token that is read", "logit"])],
            "panes": [{"name": "run", "objective": "Left out: norms.", "tokens": list("abc^"), "length": 4, "block": 1,
                       "layers": 1, "heads": 2, "saved_checkpoints": 9, "maps": {"ov": logits},
                       "checkpoints": [{"step": d, "maps": {"qk": maps(d)}} for d in range(3)]}]}


def check_circuits(browser, path):
    browser.screen(1280, 1000)
    browser.log("browser")  # discards the messages of other pages
    browser.open(path, "#head=L0H1&map=qk&cell=2-1")
    shown = lambda: number(re.search(r"= (\S+)$", browser.text("output.readout"))[1])
    check("the page starts at its first checkpoint", "distance 1 (2 of 3, selected from 9)" in browser.text("#controls output"))
    check("a cell has the names of both axes", "query's token 2 “c”, key's token 1 “b”" in browser.text("output.readout"))
    check("a map is that of the distance", same(shown(), circuit_value(1, 1, 2, 1)))
    browser.focus("#checkpoint")
    browser.press("Right")
    check("the slider selects the distance", same(shown(), circuit_value(2, 1, 2, 1)) and "distance 2" in browser.text("#controls output"))
    browser.choose("Show", "OV")
    check("a map of the pane is the same at all distances", same(shown(), circuit_value(9, 1, 2, 1)))
    check("a cell of the other map has its axes", "token that is read 2 “c”, logit 1 “b”" in browser.text("output.readout"))
    check("the pane begins with its sentence", browser.text(".pane p") == "Left out: norms.")
    text = browser.run("return document.body.innerText")
    for words in ("gradient", "Tokens", "L ="):
        check(f"a page of circuits has no '{words}'", words not in text)
    browser.screen(400, 1000)
    check("a page of circuits fits 400 pixels", browser.run("return document.documentElement.scrollWidth") <= 400)
    browser.screen(1280, 1000)
    browser.run("openTables()")
    time.sleep(0.1)
    errors = [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"]
    check(f"all tables of numbers open without errors: {errors}", not errors)


def check_three_panes(browser, path):
    browser.open(path)
    boxes = lambda: browser.run("return [...document.querySelectorAll('.pane')].map((p) => { const b = p.getBoundingClientRect(); return [b.left, b.top, b.width]; })")
    for width, columns in ((1280, 3), (900, 2), (400, 1)):
        browser.screen(width, 1000)
        time.sleep(0.1)
        lefts = {round(box[0]) for box in boxes()}
        check(f"three panes are in {columns} columns of a page of {width} pixels: {boxes()}", len(boxes()) == 3 and len(lefts) == columns)
        check(f"three panes fit into {width} pixels", browser.run("return document.documentElement.scrollWidth") <= width)
        maps = browser.run("return [...document.querySelectorAll('.one-head canvas.map')].map((c) => c.clientWidth)")
        check(f"each pane has its map, {maps}", len(maps) == 3 and min(maps) > 250)
    browser.screen(1280, 1000)
    delta = lambda l, h, i, j: value_of(0, 1, 0, l, h, i, j) - value_of(0, 0, 0, l, h, i, j)
    pixel = browser.run("const c = document.querySelectorAll('.pane')[2].querySelector('.heads canvas'); return [...c.getContext('2d').getImageData(1, 3, 1, 1).data]")
    expected = color_of(delta(0, 0, 3, 1), 1, "linear", True)
    check(f"differences of A have two colors, {pixel}, {expected}", max(abs(a - b) for a, b in zip(pixel, expected)) < 2.5)
    ticks = lambda k: browser.texts(f".pane:nth-of-type({k}) .one-head .ticks span")
    check("the scale of differences has two sides", ticks(3)[0] == "−1" and ticks(1)[0] == "0")
    check("a cell shows its difference", same(cell_read(browser, 2)[3]["A"], cell_read(browser, 1)[3]["A"] - cell_read(browser)[3]["A"]))
    check("the text of the tokens is that of differences", "changes most at:" in browser.text(".pane:nth-of-type(3) .reads"))
    check("a pane without numbers of heads has no table of them", len(browser.texts(".heads-table")) == 2)
    check("a pane without routes has no texts about them", len(browser.texts("section.routes")) == 2
          and [("routes" in text) for text in browser.texts(".tokens-view h3")] == [True, True, False])


def check_first_texts(browser, path, data):
    browser.open(path)
    check("the summary is a section", browser.texts("#summary h2") == ["What the heads do"] and browser.texts("#summary p") == data["summary"])
    check("the summary is before the controls", browser.run("return Boolean(document.getElementById('summary').compareDocumentPosition("
          "document.getElementById('controls')) & Node.DOCUMENT_POSITION_FOLLOWING)"))
    check("claims are not shown", "not shown" not in browser.run("return document.body.innerText"))
    second = browser.run("return [...document.querySelectorAll('.pane')].map((p) => p.children[1].textContent)")
    check(f"each pane begins with a sentence about L: {second}", all(text.startswith("L is the loss. L = 0.833 at step 400") for text in second))


def check_plain(browser, path):
    browser.open(path)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true)); document.getElementById('help').showModal()")
    text = browser.run("return document.body.innerText")
    found = [word for word in ("What the heads do", "Routes", "routes", "Marks compare", "reversed", "checkpoint", "Head to head", "needed\n", "hatched",
                               "heed study\n", "undefined", "null", "NaN") if word in text]
    check(f"no text is about a thing that the page does not have: {found}", not found)
    check("the words that are not on this page are searched rightly", "Numbers of the heads" in text and "Esc" in text)
    check("six numbers of each head are in view", len(browser.texts(".heads-table thead th")) == 7)
    browser.choose("Show", "dL/dA")
    panels = [lambda i, j, l=l, h=h: windowed(l, h, i, j) for l in range(2) for h in range(2)]
    limit = max(abs(panel(i, j) or 0) for panel in panels for i in range(6) for j in range(i + 1))
    check_colors(browser, "a window", panels, lambda k: limit, "linear", True)


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
        browser.click(".heads button", 1)
        browser.click(".heads-table th button.sort", 1)
        browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        browser.wait("return [...document.querySelectorAll('details.numbers')].every((d) => d.querySelector('td'))")
        browser.run("copyRows([[1]])")
        browser.wait("return document.getElementById('status').textContent")
        found = browser.run(CONTRASTS)
        browser.run("document.getElementById('help').showModal()")
        found += browser.run(CONTRASTS)
        faults = sorted({(ratio, text) for ratio, text in found if ratio is None or ratio < 4.5}, key=str)
        check(f"each text has a contrast of 4.5, {'dark' if dark else 'light'} theme: {faults[:5]}", not faults and len(found) > 300)
    browser.screen(1280, 1000)


def check_hidden(browser, path):
    """Checks that copying without a clipboard focuses no element that is hidden from assistive technology."""
    browser.open(path)
    browser.log("browser")
    browser.run("Object.defineProperty(navigator, 'clipboard', {configurable: true, value: undefined});"
                "const real = document.execCommand.bind(document);"
                "document.execCommand = (name) => { const e = document.activeElement; window.state = [e.tagName, e.value.length,"
                "Boolean(e.closest('[aria-hidden]')), Boolean(e.getAttribute('aria-label'))]; return real(name); }")
    browser.focus(".heads-table .tools button")
    browser.press("Enter")
    browser.wait("return document.getElementById('status').textContent")
    state = browser.run("return window.state")
    check(f"the focused element is not hidden and has a name: {state}", state[0] == "TEXTAREA" and state[1] > 20 and state[2:] == [False, True])
    check("the button has the focus again", browser.run("return document.activeElement.textContent") == "Copy CSV")
    check("no focusable element is hidden", browser.run("return [...document.querySelectorAll('[aria-hidden]')].every((e) => e.tabIndex < 0"
          " && !e.querySelector('button, input, select, [tabindex]'))"))
    trouble = [entry["message"] for entry in browser.log("browser")]
    check(f"the browser does not warn: {trouble}", not trouble)


def check_keyboard(browser, path):
    """Checks that Tab reaches every control, or that it reaches its group, in which arrow keys move."""
    browser.open(path)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true));"
                "document.addEventListener('focusin', (event) => event.target.reached = true); document.activeElement.blur()")
    browser.wait("return [...document.querySelectorAll('details.numbers')].every((d) => d.querySelector('td'))")
    for _ in range(12):
        browser.press(*["Tab"] * 20)
    missed = browser.run("return [...document.querySelectorAll('button, select, input, summary, canvas.map, [tabindex=\"0\"]')]"
                         ".filter((e) => e.checkVisibility() && !e.reached && !e.closest('[role=group], [role=toolbar]'))"
                         ".map((e) => e.outerHTML.slice(0, 100))")
    check(f"Tab reaches every control: {missed[:5]}", not missed)
    groups = browser.run("return [...document.querySelectorAll('[role=group], [role=toolbar]')].map((g) => [...g.children].filter((e) => e.reached).length)")
    check(f"Tab reaches one button of each group: {groups}", groups == [1] * 4)
    names = browser.run("return [...document.querySelectorAll('button, select, input, canvas.map')].filter((e) => "
                        "!(e.ariaLabel || e.textContent.trim() || e.closest('label')?.textContent.trim())).length")
    check("every control has a name", names == 0)
    browser.focus(".heads-table tbody button", 3)
    browser.press("Enter")
    check("Enter in the table of heads selects the head", browser.text(".one-head h3").startswith("L1H1"))
    browser.focus("#controls select")
    browser.press("Down")
    check("an arrow key changes a selection list", "dL/dA" in browser.text(".one-head h3"))
    browser.focus(".columns summary")
    browser.press("Enter")
    check("Enter closes the control of the columns", browser.wait("return !document.querySelector('.columns').open"))


def check_phone(browser):
    for dark in (False, True):
        browser.screen(400, 800, dark)
        time.sleep(0.1)
        widths = browser.run("return [document.documentElement.scrollWidth, window.innerWidth,"
                             "document.querySelector('canvas.map').clientWidth]")
        check(f"nothing is wider than the screen of a phone, {widths}", widths[0] <= 400 and widths[1] == 400 and 300 < widths[2] <= 400)
    browser.screen(1280, 1000)


def check_quiet(browser, path):
    trouble = [entry["message"] for entry in browser.log("browser")]
    check(f"the console is empty: {trouble}", not trouble)
    urls = [message["params"]["request"]["url"] for entry in browser.log("performance")
            for message in [json.loads(entry["message"])["message"]] if message["method"] == "Network.requestWillBeSent"]
    check(f"the page was loaded: {urls}", "file://" + path in urls)
    foreign = [url for url in urls if url != "file://" + path and not url.startswith("data:")]
    check(f"nothing else was requested: {foreign}", not foreign)
    check("the page itself counts no requests", browser.run("return performance.getEntriesByType('resource').length") == 0)


def test_in(browser, paths, data):
    path = paths["two"]
    browser.screen(1280, 1000)
    browser.open(path)
    check_texts(browser, data["two"])
    check_hover(browser)
    check_keys(browser)
    check_slider(browser, data["two"])
    check_routes(browser, data["two"])
    check_numbers(browser, data["two"])
    check_phone(browser)
    check_themes(browser)
    check_quiet(browser, path)
    browser.screen(1280, 1000)
    check_first_texts(browser, path, data["two"])
    check_scale(browser, path)
    check_pin(browser, path)
    check_address(browser, path)
    check_heads_table(browser, path)
    check_tables(browser, path)
    check_reads(browser, path, data["two"])
    check_reads(browser, paths["blocks"], data["blocks"], 2)
    check_three_panes(browser, paths["three"])
    check_plain(browser, paths["plain"])
    check_circuits(browser, paths["circuits"])
    check_contrast(browser, path)
    check_hidden(browser, path)
    check_keyboard(browser, path)


def main():
    found = {names[0]: next(filter(None, map(shutil.which, names)), None)
             for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))}
    missing = [name for name, path in found.items() if not path]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} here; tools/setup --all installs them")
        return 0
    data = {"two": made_up(HOSTILE), "plain": made_up_plain(), "three": made_up_three(), "blocks": made_up_blocks(),
            "circuits": made_up_circuits()}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        paths = {name: os.path.join(folder, name + ".html") for name in data}
        for name, path in paths.items():
            page = subprocess.run([sys.argv[1]], input=json.dumps(data[name]).encode(), stdout=subprocess.PIPE, check=True).stdout
            with open(path, "wb") as file:
                file.write(page)
        browser = Browser(*found.values(), os.path.join(folder, "profile"))
        try:
            test_in(browser, paths, data)
        finally:
            browser.close()
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
