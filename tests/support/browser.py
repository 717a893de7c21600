"""Open pages in a browser, and find what is cut off, hard to read, or loaded from elsewhere."""

from contextlib import contextmanager
from itertools import product
from pathlib import Path
from shutil import which

from playwright.sync_api import sync_playwright

WIDTHS = (400, 900, 1600)
SCHEMES = ("light", "dark")

# WCAG 2.2, 1.4.3: text needs a contrast of 4.5, large text of 3. A background that is transparent
# is mixed with the one below it.
FAULTS = """() => {
  const faults = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push(`page wider than ${width}`);
  const rgba = (text) => {
    const numbers = text.match(/[\\d.e+-]+/g).map(Number);
    const unit = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((x) => x * unit), numbers[3] ?? 1];
  };
  const over = (top, below) => top.slice(0, 3).map((x, i) => x * top[3] + below[i] * (1 - top[3]));
  const ground = (node) => {
    if (!node) return [255, 255, 255];
    const own = rgba(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, ground(node.parentElement));
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element);
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!node.data.trim() || box.width === 0) continue;
    const below = ground(element), color = rgba(element.closest("svg") ? style.fill : style.color);
    const [low, high] = [light(below), light(over(color, below))].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.6 && style.fontWeight >= 700);
    const contrast = (high + 0.05) / (low + 0.05), name = node.data.trim().slice(0, 40);
    if (contrast < (isLarge ? 3 : 4.5)) faults.push(`contrast ${contrast.toFixed(2)}: ${name}`);
    const frame = element.closest("svg, figure, .cards > div, .wide");
    if (!frame || frame.matches(".wide")) continue;
    const edge = frame.getBoundingClientRect();
    if (box.right > edge.right + 1 || box.left < edge.left - 1) faults.push(`cut off: ${name}`);
  }
  return faults;
}"""


def find_faults(page, path: Path) -> list[str]:
    """List what is wrong with a page, in each width and color scheme."""
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("console", lambda line: faults.append(f"console: {line.text}"))
    page.on("request", lambda request: faults.append(f"loads {request.url}"))
    page.goto(path.resolve().as_uri())
    faults.remove(f"loads {path.resolve().as_uri()}")
    page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true })")
    for scheme, width in product(SCHEMES, WIDTHS):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        faults += [f"{width} {scheme}: {fault}" for fault in page.evaluate(FAULTS)]
    return faults


@contextmanager
def open_browser():
    """Open Chromium without a window; yield None if it is not installed."""
    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    if program is None:
        yield None
        return
    with sync_playwright() as playwright:
        # The sandbox does not start as root, and the pages are our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
