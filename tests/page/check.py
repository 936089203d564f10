#!/usr/bin/env python3
"""Opens the report of `leaderwatch report` in a real headless Chromium and holds it to what it promises: layout on a phone
and on a desktop, light and dark; use by keyboard alone; names for screen readers; no error; no request; a soon usable page
of 100,000 records.

    check.py LEADERWATCH SYNTHETIC_LOG [--keep FOLDER] [--accept]

The two are programs: the command, and the example that makes logs up. `--keep` writes the pages and screenshots there, and
`--accept` makes the layout as it is now the one to compare with (`boxes.json` and the pictures beside this file). Of three
times the best counts, since what the machine does beside it is not the page's. Only the standard library is used: Chromium is talked to over its debugging pipe.
"""

import argparse
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTHS = {360: 740, 1440: 900}
SCHEMES = ("light", "dark")
RECORDS, MANY_RECORDS = 3_000, 100_000
# Within which the page with many records must be of use, in milliseconds.
USABLE_MS = 2000
SECTIONS = ("unresolved", "timeline", "failovers", "delivery", "records")

WITHIN_SECONDS = 20

# A picture is compared as squares of this many pixels, each by its mean colour: fonts may differ a little, layout may not.
SQUARE_PIXELS = 12
# Of 255, on average over all squares and the three colours.
MOST_DIFFERENCE = 6
# Boxes may be this many pixels off, and besides this part of their size.
BOX_PIXELS, BOX_PART = 24, 0.12


class Failure(Exception):
    """What the page does not do."""


class Chromium:
    """A browser, driven over `--remote-debugging-pipe`: JSON messages that end in a null."""

    def __init__(self, program, profile):
        to_read, self.to_write = os.pipe()
        self.from_read, to_answer = os.pipe()
        flags = [
            "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--no-first-run", "--no-default-browser-check",
            "--disable-dev-shm-usage", "--force-color-profile=srgb", "--lang=en", f"--user-data-dir={profile}", "about:blank",
        ]

        def descriptors():
            # Chromium reads commands from 3 and writes answers to 4. Both pipes are first moved out of the way of these.
            read, write = os.dup2(to_read, 1000), os.dup2(to_answer, 1001)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [program, *flags], preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        os.close(to_read)
        os.close(to_answer)
        self.rest = b""
        self.number = 0
        self.events = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise Failure(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def next_message(self):
        while b"\0" not in self.rest:
            more = os.read(self.from_read, 1 << 20)
            if not more:
                raise Failure("Chromium has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def wait_for(self, method):
        while True:
            found = next((event for event in self.events if event.get("method") == method), None)
            if found:
                return found
            self.events.append(self.next_message())

    def run(self, expression):
        """The value of a JavaScript expression; promises are waited for."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression, what):
        """Waits until a JavaScript expression holds: what a key brings about may take a moment."""
        begun = time.monotonic()
        while not self.run(expression):
            expect(time.monotonic() - begun < WITHIN_SECONDS, what)
            time.sleep(0.02)

    def open(self, page, width, scheme="light"):
        height = WIDTHS.get(width, 900)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")

    def screenshot(self, whole=False):
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def press(self, key, code, text=""):
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def stop(self):
        # Its helpers, too: they are of its own session.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def expect(condition, what):
    if not condition:
        raise Failure(what)


def no_error_and_no_request(browser, page):
    """All events since the page was opened."""
    for event in browser.events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            expect(url.startswith("data:") or url.split("#")[0] == page.as_uri(), f"the page asks for {url}")
        expect(method != "Runtime.exceptionThrown", f"an exception: {parameters}")
        expect(method != "Runtime.consoleAPICalled", f"the console says {parameters}")
        expect(method != "Log.entryAdded", f"the log says {parameters}")


BOXES = """(() => {
  const box = (element) => {
    const at = element.getBoundingClientRect();
    return [at.left + scrollX, at.top + scrollY, at.width, at.height].map(Math.round);
  };
  const named = { page: document.documentElement, title: document.querySelector("h1"), nav: document.querySelector("nav") };
  for (const section of document.querySelectorAll("main > section")) named[section.id] = section;
  document.querySelectorAll("details.seat").forEach((seat, number) => named[`seat ${number}`] = seat);
  for (const id of ["filter", "list", "pages"]) named[id] = document.getElementById(id);
  named.bars = document.querySelector(".bars");
  named.footer = document.querySelector("footer");
  return Object.fromEntries(Object.entries(named).map(([name, element]) => [name, box(element)]));
})()"""

TOO_WIDE = """(() => {
  const inScroll = (element) => element.parentElement?.closest(".scroll");
  return [...document.querySelectorAll("body *")].filter((element) => {
    const at = element.getBoundingClientRect();
    return at.width > 1 && at.right > %d && !inScroll(element) && !element.closest(".skip, .hidden");
  }).slice(0, 9).map((element) => element.outerHTML.slice(0, 120));
})()"""

CUT_TEXT = """[...document.querySelectorAll("h1, h2, h3, nav a, summary span, button, label, th, td")].filter((element) =>
  element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX !== "visible")
  .map((element) => element.outerHTML.slice(0, 120))"""

# Contrast of text against the page, by WCAG 2: 4.5 is wanted of it.
LOW_CONTRAST = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const wrong = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, :disabled")) continue;
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) wrong.add(`${contrast.toFixed(2)}: ${element.outerHTML.slice(0, 100)}`);
  }
  return [...wrong];
})()"""

# A picture drawn small, so that each pixel is the mean of a square, and how far it is from one that was drawn small before:
# the mean difference of their colours, or null where their sizes differ.
COMPARE = """(async ([before, now, square]) => {
  const draw = async (picture, square) => {
    const bitmap = await createImageBitmap(await (await fetch(picture)).blob());
    const [width, height] = [Math.ceil(bitmap.width / square), Math.ceil(bitmap.height / square)];
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(bitmap, 0, 0, width, height);
    return { canvas, width, height, colours: context.getImageData(0, 0, width, height).data };
  };
  const b = await draw(now, square);
  const bytes = new Uint8Array(await (await b.canvas.convertToBlob()).arrayBuffer());
  const small = btoa(String.fromCharCode(...bytes));
  if (!before) return { small };
  const a = await draw(before, 1);
  if (a.width !== b.width || a.height !== b.height) return { small, difference: null };
  const sum = b.colours.reduce((sum, colour, at) => sum + Math.abs(a.colours[at] - colour), 0);
  return { small, difference: sum / (b.width * b.height * 3) };
})(%s)"""


def as_data(png):
    return "data:image/png;base64," + base64.b64encode(png).decode()


def close_to(before, now):
    return all(abs(a - b) <= BOX_PIXELS + BOX_PART * max(abs(a), abs(b)) for a, b in zip(before, now))


def layout(browser, page, arguments):
    """Nothing is wider than the screen, nothing is cut, all can be read, and all stands where it stood."""
    reference = HERE / "boxes.json"
    known = json.loads(reference.read_text()) if reference.exists() else {}
    pictures = {}
    for width in WIDTHS:
        for scheme in SCHEMES:
            name = f"{width}-{scheme}"
            browser.open(page, width, scheme)
            wide = browser.run("document.documentElement.scrollWidth")
            expect(wide <= width, f"{name}: the page is {wide} pixels wide: {browser.run(TOO_WIDE % (width + 1))}")
            expect(not (found := browser.run(TOO_WIDE % (width + 1))), f"{name}: wider than the screen: {found}")
            expect(not (found := browser.run(CUT_TEXT)), f"{name}: text is cut: {found}")
            expect(not (found := browser.run(LOW_CONTRAST)), f"{name}: hard to read: {found}")
            boxes = browser.run(BOXES)
            for section in SECTIONS:
                expect(boxes[section][2] > width * 0.6 and boxes[section][3] > 40, f"{name}: {section}: {boxes[section]}")
            if arguments.accept:
                known[str(width)] = boxes
            else:
                before = known[str(width)]
                moved = {key: (before.get(key), boxes.get(key)) for key in before.keys() | boxes.keys()
                         if key not in before or key not in boxes or not close_to(before[key], boxes[key])}
                expect(not moved, f"{name}: not where it was (left, top, width, height): {moved}")
            no_error_and_no_request(browser, page)
            pictures[name] = browser.screenshot()
            if arguments.keep:
                (arguments.keep / f"{name}.png").write_bytes(browser.screenshot(whole=True))
    # The page's own policy forbids it to fetch even these.
    browser.ask("Page.navigate", url="about:blank")
    for name, now in pictures.items():
        kept = HERE / f"{name}.png"
        before = None if arguments.accept else as_data(kept.read_bytes())
        compared = browser.run(COMPARE % json.dumps([before, as_data(now), SQUARE_PIXELS]))
        if arguments.accept:
            kept.write_bytes(base64.b64decode(compared["small"]))
            continue
        difference = compared["difference"]
        expect(difference is not None, f"{name}: the picture has another size")
        expect(difference <= MOST_DIFFERENCE, f"{name}: the picture differs by {difference:.1f} of 255")
        print(f"  {name}: the picture differs by {difference:.2f} of 255; {MOST_DIFFERENCE} are allowed")
    if arguments.accept:
        reference.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


FOCUSED = """(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const at = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  return {
    name: element.id || element.getAttribute("aria-label") || element.textContent.trim().slice(0, 30),
    tag: element.tagName,
    seen: at.width > 1 && at.height > 1 && at.bottom > 0 && at.top < innerHeight && at.left >= 0 && at.right <= innerWidth + 1,
    marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
  };
})()"""

USABLE = """[...document.querySelectorAll("a[href], summary, input, select, button, [tabindex='0']")]
  .filter((element) => element.checkVisibility() && !element.disabled).length"""


def keyboard(browser, page):
    """Everything that a mouse can use, the keyboard can, in the order of the page and always in sight."""
    for width in WIDTHS:
        browser.open(page, width)
        usable = browser.run(USABLE)
        walked = []
        for _ in range(usable + 5):
            browser.press("Tab", 9)
            focused = browser.run(FOCUSED)
            if focused is None:
                break
            walked.append(focused)
        names = [focused["name"] for focused in walked]
        expect(len(walked) == usable, f"{width}: {usable} can be used, {len(walked)} were reached: {names}")
        expect(names[0] == "Skip to content", f"{width}: the first is {names[0]}")
        for focused in walked:
            expect(focused["seen"], f"{width}: out of sight: {focused}")
            expect(focused["marked"], f"{width}: nobody sees that it has the focus: {focused}")
        no_error_and_no_request(browser, page)

    browser.open(page, 1440)
    focus = "document.querySelector('%s').focus()"
    browser.run(focus % "details.seat summary")
    browser.press("Enter", 13, "\r")
    rows = "document.querySelectorAll('details.seat[open] table tbody tr').length"
    browser.until(f"{rows} > 1", "Enter on a row of the timeline shows no leaders")
    browser.press("Enter", 13, "\r")
    browser.until("!document.querySelector('details.seat[open]')", "Enter does not close it again")

    status = "document.getElementById('status').textContent"
    everything = browser.run(status)
    browser.run(focus % "#find")
    for letter in "fraud":
        browser.press(letter, ord(letter.upper()), letter)
    browser.until(f"{status} !== {json.dumps(everything)}", f"Find leaves it at {everything}")
    for _ in "fraud":
        browser.press("Backspace", 8)
    browser.until(f"{status} === {json.dumps(everything)}", "Find without a word does not show everything")
    browser.run(focus % "#older")
    browser.press("Enter", 13, "\r")
    browser.until(f"{status}.startsWith('101 to 200 ')", "Older does not show older records")
    expect(browser.run("document.activeElement.id") == "older", "the focus is lost by a press of Older")
    browser.run(focus % ".skip")
    browser.press("Enter", 13, "\r")
    browser.until("location.hash === '#main'", "the first link does not lead to the content")
    no_error_and_no_request(browser, page)
    print(f"  {usable} elements by keyboard, each in sight and marked")


def screen_reader(browser, page):
    """Whatever takes the focus has a name, and pictures have one."""
    browser.open(page, 1440)
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    roles = [node.get("role", {}).get("value") for node in nodes]
    for role in ("main", "navigation", "banner", "contentinfo", "heading", "table"):
        expect(role in roles, f"no {role} for a screen reader")
    for node in nodes:
        focusable = any(p["name"] == "focusable" and p["value"].get("value") for p in node.get("properties", []))
        is_picture = node.get("role", {}).get("value") in ("image", "img", "graphics-document")
        if node.get("ignored") or not (focusable or is_picture) or node["role"]["value"] == "RootWebArea":
            continue
        expect(node.get("name", {}).get("value"), f"no name for a screen reader: {node}")
    print(f"  {len(nodes)} nodes for a screen reader, all of use named")


def without_scripts(browser, page):
    """All but the list of records is there without scripts."""
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page, 1440)
    text = browser.run("document.body.innerText")
    for wanted in ("Who led when", "Delivery", "needs scripts"):
        expect(wanted in text, f"without scripts the page lacks `{wanted}`")
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def soon_usable(browser, page, count):
    """How long a page takes until its list stands there, and until a letter typed has searched it."""
    best = None
    for _ in range(3):
        browser.open(page, 1440)
        opened = browser.run("""new Promise((done) => requestAnimationFrame(() => setTimeout(() => {
          const at = performance.getEntriesByType("navigation")[0];
          done([at.domInteractive, at.loadEventEnd, performance.now(), document.getElementById("status").textContent]);
        })))""")
        expect(f"of {count}" in opened[3] or count is None, f"the list says {opened[3]}")
        searched = browser.run("""(() => {
          const begin = performance.now();
          const find = document.getElementById("find");
          find.value = "3f0c97a1 moved";
          find.dispatchEvent(new Event("input"));
          return performance.now() - begin;
        })()""")
        if best is None or opened[1] < best[0]:
            best = (opened[1], searched)
    no_error_and_no_request(browser, page)
    return best


def find_chromium():
    for name in (os.environ.get("LEADERWATCH_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and (path := shutil.which(name)):
            return path
    raise Failure("no Chromium: apt-get install chromium, or name one by $LEADERWATCH_CHROMIUM")


def make_page(arguments, folder, records, name):
    log, page = folder / f"{name}.jsonl", folder / f"{name}.html"
    with open(log, "wb") as out:
        subprocess.run([arguments.synthetic_log, str(records)], stdout=out, check=True)
    # All records of all processes, so that there are as many as asked for.
    command = [arguments.leaderwatch, "report", str(log), "-o", str(page), "--time-zone", "UTC"]
    subprocess.run(command, check=True)
    listed = re.search(r"from (\d+) records", page.read_text())
    return page, int(listed[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leaderwatch")
    parser.add_argument("synthetic_log")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--accept", action="store_true")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leaderwatch-page-", ignore_cleanup_errors=True)))
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
        browser = Chromium(find_chromium(), folder / "profile")
        stack.callback(browser.stop)
        print(f"report page in {browser.ask('Browser.getVersion')['product']}")
        page, _ = make_page(arguments, folder, RECORDS, "page")
        layout(browser, page, arguments)
        keyboard(browser, page)
        screen_reader(browser, page)
        without_scripts(browser, page)
        # Of what three TaskManagers say alike, a page lists one.
        large, count = make_page(arguments, folder, 3 * MANY_RECORDS, "large")
        expect(count >= MANY_RECORDS, f"only {count} records are listed")
        listed = MANY_RECORDS
        usable_ms, searched_ms = soon_usable(browser, large, listed)
        expect(usable_ms < USABLE_MS, f"{listed} records can be used after {usable_ms:.0f} ms only")
        size_mb = large.stat().st_size / 1e6
        print(f"  {listed} records, {size_mb:.1f} MB: usable after {usable_ms:.0f} ms; a search takes {searched_ms:.0f} ms")
        if arguments.keep:
            shutil.copy(page, arguments.keep)
            shutil.copy(large, arguments.keep)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"report page: {failure}")
