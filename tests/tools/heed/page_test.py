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
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011", "Left": "\ue012",
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

    def open(self, path):
        self.send("POST", "/url", {"url": "about:blank"})
        self.log("performance")  # discards the requests of the browser's first page
        self.send("POST", "/url", {"url": "file://" + path})

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
    """Returns the value of one cell. Weights are the softmax of a row of sines."""
    if quantity == 0:
        score = [3 * math.sin((1 + layer + 2 * head + checkpoint + 5 * pane) * (k + 1) * (1 + 0.1 * i)) for k in range(i + 1)]
        return math.exp(score[j]) / sum(map(math.exp, score))
    return math.sin(1 + 3 * i + 7 * j + layer + 2 * head + 11 * checkpoint + pane) ** 5 / (quantity * 10)


def encoded(layer, head, n, value):
    cells = [value(i, j) for i in range(n) for j in range(i + 1)]
    scale = max(map(abs, cells))
    codes = [round(x / scale * 32767) for x in cells]
    return {"layer": layer, "head": head, "scale": scale, "triangle": True,
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
    reports = [{"layer": l, "head": h, "values": [0.25 * (h + 1), None if h else 0.125, 1e-5 * (m + 1)],
                "saturated": (l, h) == (1, 0), "importance": 0.01 * (l + 1) * (1 - 2 * h)}
               for l in range(layers) for h in range(heads)]
    names = ["hook_pattern", "hook_pattern_grad", "hook_attn_scores_grad"]
    return {"step": step, "value": 2.5 / (m + 1), "heads": reports, "routes": routes,
            "maps": {name: maps(q) for q, name in enumerate(names) if complete or q != 1},
            "edges": [{"from": "L0H1", "to": "L1H0.K", "value": 0.5}, {"from": "L0H0", "to": "L1H1.V", "value": -0.75},
                      {"from": "L0H0", "to": "L1H0.Q", "value": 0.9}]}


def made_up(tokens, layers=2, heads=2, panes=2, steps=(0, 200, 400)):
    n = len(tokens)
    return {
        "heed": "0.1.0", "title": "Study of <b>induction</b>", "command": "heed study runs/a runs/b --prompt '<ab>'",
        "quantities": QUANTITIES,
        "head_columns": [{"name": "entropy", "unit": "share of log(visible keys)", "what": "of the weights"},
                         {"name": "induction", "unit": "", "what": "weight on what followed the copy"},
                         {"name": "|dL/dq|", "unit": "nats", "what": "norm"}],
        "panes": [{"name": f"runs/{'ab'[p]}", "hash": "1a2b3c4d", "objective": "the loss", "tokens": tokens,
                   "length": n, "block": 1, "layers": layers, "heads": heads,
                   "checkpoints": [made_up_checkpoint(p, m, step, layers, heads, n, m == len(steps) - 1)
                               for m, step in enumerate(steps)]} for p in range(panes)],
        "tables": [{"title": "Ablation", "what": "What cutting a head costs.",
                    "columns": [{"name": "head", "unit": ""}, {"name": "zero", "unit": "nats"}],
                    "rows": [["L0H0", 0.5], ["L1H0", -1.25]]}]}


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
    root = "return document.querySelector('#controls input[type=checkbox]').checked"
    before = browser.run(root)
    browser.press("r")
    check("r switches the root scale off", before and not browser.run(root) and "linear scale" in browser.text(".one-head .bar"))
    browser.press("r", "Shift+Q")
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
    check(f"every view has a table: {views}", len(views) == 2 * 5 and min(views) > 0)
    cell = browser.run("return document.querySelectorAll('.one-head details tbody tr')[11].querySelectorAll('td')[0].textContent")
    check("a table's number", same(number(cell), value_of(0, 0, 2, int(head[1]), int(head[3]), 11, 0)))
    browser.click("#controls button", 0)


def check_texts(browser, data):
    check("the title is text", browser.text("h1") == data["title"] and not browser.run("return document.querySelector('h1 b')"))
    check("no token is executed as code", browser.run("return window.broken === undefined && !document.querySelector('img')"))
    tokens = browser.run("return [...document.querySelectorAll('.tokens')[0].children].map((b) => b.textContent)")
    check("tokens are shown as text, with signs for spaces and newlines", tokens == ["^", "a", "␣", "↵", *(t.replace(" ", "␣") for t in HOSTILE[4:])])
    marked = browser.run("return [...document.querySelectorAll('.pane:first-of-type .heads button')].map((b) => b.textContent.includes('sat.'))")
    check("only the saturated head is marked", marked == [False, False, True, False])
    rows = browser.run("return [...document.querySelectorAll('.pane:first-of-type .heads-table tbody tr')].map((r) => r.textContent)")
    check("the table marks it, too", ["saturated" in row for row in rows] == marked)
    check("the mark is explained", "disagrees in sign" in browser.text("#saturated-note"))
    check("the largest edges come first", browser.text(".edges .parts") == "L0H0 → L1H0.Q0.900L0H0 → L1H1.V−0.750L0H1 → L1H0.K0.500")


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
    browser.run("const s = [...document.querySelectorAll('#controls select')].at(-1); s.selectedIndex = 1; s.dispatchEvent(new Event('change'))")
    light = background(browser), corner(browser)
    check(f"the theme is light if selected, {light}", light == ("rgb(255, 255, 255)", [187, 187, 187, 255]))


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


def test_in(browser, path, data):
    browser.screen(1280, 1000)
    browser.open(path)
    check_texts(browser, data)
    check_hover(browser)
    check_keys(browser)
    check_slider(browser, data)
    check_routes(browser, data)
    check_numbers(browser, data)
    check_phone(browser)
    check_themes(browser)
    check_quiet(browser, path)


def main():
    found = {names[0]: next(filter(None, map(shutil.which, names)), None)
             for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))}
    missing = [name for name, path in found.items() if not path]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} here; tools/setup --all installs them")
        return 0
    data = made_up(HOSTILE)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "report.html")
        page = subprocess.run([sys.argv[1]], input=json.dumps(data).encode(), stdout=subprocess.PIPE, check=True).stdout
        with open(path, "wb") as file:
            file.write(page)
        browser = Browser(*found.values(), os.path.join(folder, "profile"))
        try:
            test_in(browser, path, data)
        finally:
            browser.close()
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
