#!/usr/bin/env python3
"""Tests the page of a study in headless Chromium: its texts, its pictures, and the values under the pointer.

Usage: page_test.py HEED_PAGE, where HEED_PAGE is the program built from page_main.cpp. The test needs chromium
and chromedriver (Debian's packages chromium and chromium-driver, or `tools/setup --all`). Without them the test
prints a note and is skipped. It uses only Python's standard library, because WebDriver is JSON over HTTP
(https://www.w3.org/TR/webdriver2/).
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


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

    def hover(self, css, x, y):
        """Moves the pointer to (x, y), in pixels from the top left corner of the element."""
        box = self.run("const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
                       "const b = e.getBoundingClientRect(); return [b.left, b.top]", css)
        moves = [{"type": "pointerMove", "duration": 0, "x": round(box[0] + x), "y": round(box[1] + y)}]
        self.send("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def devtools(self, command, **parameters):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.send("POST", "/se/log", {"type": kind})

    def screen(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])


ATTACK = "</script></title><script>window.broken=1</script><img src=x>"  # as in page_main.cpp
failures = []


def check(what, got, wanted=True):
    if got != wanted:
        failures.append(what)
        print(f"FAILED: {what}: {got!r}, not {wanted!r}")


TEXTS = [  # what is tested, an expression of JavaScript, its value
    ("the titles are shown as text", "[document.title, document.querySelector('h1').textContent]", [ATTACK] * 2),
    ("no text is HTML or code", "[window.broken, document.querySelectorAll('section script').length, document.images.length]", [None, 1, 2]),
    ("the first lines", "[...document.querySelectorAll('.lines')].map((e) => e.textContent)", ["The first line.\n  " + ATTACK, "&lt; stays"]),
    ("the sections", "[...document.querySelectorAll('h2')].map((e) => e.textContent)", [ATTACK, "Edges"]),
    ("all rows of a table", "[...document.querySelectorAll('tr')].map((row) => [...row.cells].map((e) => e.textContent))",
     [[ATTACK + " (nats)", "effect"], [ATTACK, "0.12"], ["L0H1", "-"]]),
    ("the pictures are drawn", "[...document.images].every((e) => e.complete && e.naturalWidth > 100)", True)]


def check_values(browser):
    """Moves the pointer to the middle of each cell of both maps, in a narrow window too."""
    for width in (1280, 400):
        browser.screen(width, 900)
        shape = browser.run("const m = JSON.parse(document.querySelector('figure script').textContent);"
                            "return {...m, zoom: document.querySelector('.map img').clientWidth / m.width}")
        for n, panel in enumerate(shape["panels"], 1):
            for i in range(9):
                row, column = divmod(i, 3)
                at = [(panel[side] + (k + 0.5) * shape["pitch"]) * shape["zoom"] for side, k in (("left", column), ("top", row))]
                browser.hover(".map img", *at)
                text = browser.run("return document.querySelector('output').textContent")
                query = ["0 (^)", f"1 ({ATTACK})".replace("<img ", "<img\u2423"), "2 (\u2423)"][row]
                check(f"cell {i} of L0H{n - 1}", text.startswith(f"L0H{n - 1}: query {query}, key {column} ({'abc'[column]}): "), True)
                shown = text.rsplit(": ", 1)[-1]
                wanted = n * (i if i % 2 == 0 else -i)
                check(f"value {i} of L0H{n - 1}: {shown}", shown == "masked" if column > row else abs(float(shown) - wanted) < 0.006 * abs(wanted) + 1e-9)
        browser.hover("h1", 2, 2)
        check("outside of the maps no value is shown", browser.run("return document.querySelector('output').textContent"), "")


def check_quiet(browser, path):
    check("the console is empty", [entry["message"] for entry in browser.log("browser")], [])
    urls = [message["params"]["request"]["url"] for entry in browser.log("performance")
            for message in [json.loads(entry["message"])["message"]] if message["method"] == "Network.requestWillBeSent"]
    check("only the page was requested", {url for url in urls if not url.startswith("data:")}, {"file://" + path})


def test_in(browser, folder):
    subprocess.run([sys.argv[1], os.path.join(folder, "study")], check=True)
    path = os.path.join(folder, "study", "report.html")
    browser.screen(1280, 900)
    browser.open(path)
    for what, expression, wanted in TEXTS:
        check(what, browser.run("return " + expression), wanted)
    check_values(browser)
    check_quiet(browser, path)


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
