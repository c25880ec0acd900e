#!/usr/bin/env python3
"""The pages that the program writes, as a browser shows them.

  page_layout.py SHOEHORN_PROGRAM        makes pages from small runs, and looks at them
  page_layout.py --pages FILE.html …     looks at pages that are there

Each page is laid out 400, 1280 and 1920 pixels wide, light and dark, by a headless Chromium ($SHOEHORN_BROWSER, else the
first of chromium, chromium-browser and google-chrome on the path). Checked are: nothing is wider than the window, and no command is scrolled; every
figure shows one drawing, which fills the column, with a title, a caption, ticks, and a legend where it has several
colours; no text is less than 11 pixels high, cut, on another or crossed by a reference line; each table that scrolls keeps its
first and its last column beside each other in sight; no name in the first column of another is broken on a desk; the contrast
of texts is at least 4.5.
Exit: 0 all is well, 1 not, or a program failed, 77 no browser here (CTest's SKIP_RETURN_CODE).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
WIDTHS = [400, 1280, 1920]

MEASURE = r"""
function check(win, width, theme) {
  const doc = win.document, root = doc.documentElement, wrong = [];
  const say = text => wrong.push(width + ' px, ' + theme + ': ' + text);
  const meet = (a, b, slack) => a.left + slack < b.right && b.left + slack < a.right
    && a.top + slack < b.bottom && b.top + slack < a.bottom;
  const shown = element => element.getClientRects().length > 0;
  root.dataset.theme = theme;

  if (root.scrollWidth > root.clientWidth) {
    const widest = [...doc.body.querySelectorAll('*')].filter(e => !e.closest('.scroll') && !e.closest('pre'))
      .sort((a, b) => b.getBoundingClientRect().right - a.getBoundingClientRect().right)[0];
    say('the page scrolls sideways, ' + root.scrollWidth + ' for ' + root.clientWidth + ': ' + widest.outerHTML.slice(0, 120));
  }

  for (const pre of doc.querySelectorAll('pre'))
    if (pre.scrollWidth > pre.clientWidth) say('scrolls sideways, ' + pre.scrollWidth + ' for ' + pre.clientWidth
      + ': ' + pre.textContent.slice(0, 120));

  const column = doc.querySelector('header').getBoundingClientRect();
  for (const figure of doc.querySelectorAll('figure')) {
    const drawings = [...figure.querySelectorAll('svg')].filter(shown);
    const name = drawings.length ? drawings[0].getAttribute('aria-label') : '?';
    const say_of = text => say('the figure "' + name + '" ' + text);
    if (drawings.length !== 1) { say_of('shows ' + drawings.length + ' drawings'); continue; }
    const svg = drawings[0], frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
    if (frame.width < 0.95 * column.width) say_of('fills ' + frame.width + ' of ' + column.width);
    if (!svg.querySelector('.title') || !svg.querySelector('desc')) say_of('has no title or description');
    if (!figure.querySelector('figcaption')) say_of('has no caption');
    const texts = [...svg.querySelectorAll('text')].map(e => ({e, box: e.getBoundingClientRect(), text: e.textContent}));
    const is_empty = texts.some(t => t.text === 'no values');
    if (!is_empty) {
      const ticks = texts.filter(t => t.e.classList.contains('tick'));
      if (ticks.length < 2) say_of('has ' + ticks.length + ' ticks');
      if (!svg.querySelector('title')) say_of('tells no value');
    }
    const colours = new Set();
    for (const e of svg.querySelectorAll('.line,.area,.bar,.dot'))
      e.classList.forEach(c => { if (/^c\d$/.test(c)) colours.add(c); });
    const keys = svg.querySelectorAll('.key').length;
    if (colours.size > 1 && keys < colours.size) say_of('has ' + colours.size + ' colours and ' + keys + ' keys');
    for (const t of texts) {
      const size = parseFloat(win.getComputedStyle(t.e).fontSize) * scale;
      if (size < 11) say_of('has a text of ' + size.toFixed(1) + ' px: ' + t.text);
      if (t.box.left < frame.left - 1 || t.box.right > frame.right + 1 || t.box.top < frame.top - 1
          || t.box.bottom > frame.bottom + 1) say_of('cuts the text ' + t.text);
      if (t.text.includes('…')) say_of('has the shortened text ' + t.text);
    }
    for (let i = 0; i < texts.length; ++i)
      for (let k = 0; k < i; ++k)
        if (meet(texts[i].box, texts[k].box, 1.5)) say_of('has "' + texts[k].text + '" on "' + texts[i].text + '"');
    for (const line of svg.querySelectorAll('.mark')) {
      const box = line.getBoundingClientRect();
      for (const t of texts)
        if (meet({left: box.left - .5, right: box.right + .5, top: box.top, bottom: box.bottom}, t.box, .4))
          say_of('has a line through "' + t.text + '"');
    }
  }

  for (const scroll of doc.querySelectorAll('.scroll')) {
    const name = scroll.querySelector('caption,th').textContent;
    if (scroll.scrollWidth <= scroll.clientWidth) continue;
    const frame = scroll.getBoundingClientRect();
    for (const part of [0, .5, 1]) {
      scroll.scrollLeft = part * (scroll.scrollWidth - scroll.clientWidth);
      for (const row of scroll.querySelectorAll('tr')) {
        const first = row.firstElementChild.getBoundingClientRect(), last = row.lastElementChild.getBoundingClientRect();
        if (Math.abs(first.left - frame.left) > 1 || Math.abs(last.right - frame.right) > 1)
          say('the table "' + name + '" loses an end where it is scrolled to ' + part);
        else if (last.left - first.right < 60)
          say('the table "' + name + '" has ' + (last.left - first.right) + ' px between its ends');
        else continue;
        break;
      }
    }
    scroll.scrollLeft = 0;
  }

  for (const cell of width > 1000 ? doc.querySelectorAll('.scroll:not(.wide) td:first-child') : []) {
    const name = cell.textContent, part = doc.createRange();
    part.selectNodeContents(cell);
    const lines = new Set([...part.getClientRects()].map(box => Math.round(box.top)));
    if (lines.size > 1 && name.length <= 40 && !/[\s-]/.test(name)) say('breaks the name ' + name);
  }

  const channels = text => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = rgb => rgb.slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const rgb = channels(win.getComputedStyle(e).backgroundColor);
      if (rgb.length === 3 || rgb[3] === 1) return rgb;
    }
    return [255, 255, 255];
  };
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !shown(e) || ['SCRIPT', 'title', 'desc'].includes(e.tagName)) continue;
    const style = win.getComputedStyle(e), is_svg = e.tagName === 'text';
    if (!is_svg && parseFloat(style.fontSize) < 11) say('a text of ' + style.fontSize + ': ' + text);
    const a = luminance(channels(is_svg ? style.fill : style.color)), b = luminance(behind(e));
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const kind = e.tagName + '.' + e.getAttribute('class');
    if (contrast < 4.5 && !told.has(kind)) { told.add(kind); say('contrast ' + contrast.toFixed(2) + ' of ' + kind + ' "' + text + '"'); }
  }
  return wrong;
}
const frame = document.querySelector('iframe');
frame.onload = () => {
  const wrong = [];
  for (const width of widths) {
    frame.style.width = width + 'px';
    for (const theme of ['light', 'dark']) {
      try { wrong.push(...check(frame.contentWindow, width, theme)); }
      catch (error) { wrong.push(width + ' px, ' + theme + ': ' + error); }
    }
  }
  const figures = frame.contentDocument.querySelectorAll('figure').length;
  document.body.innerHTML = '<pre id="result"></pre>';
  document.getElementById('result').textContent = encodeURIComponent(JSON.stringify({wrong, figures}));
};
frame.srcdoc = page;
"""


def find_browser():
    named = os.environ.get("SHOEHORN_BROWSER")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, names) if path), None)


def look_at(browser, text, directory):
    """What is wrong with a page, and how many figures it has."""
    page = json.dumps(text).replace("</", "<\\/")
    harness = directory / "harness.html"
    harness.write_text(
        '<!doctype html><meta charset="utf-8"><body style="margin:0"><iframe style="border:0;height:900px"></iframe>'
        f"<script>const page={page},widths={json.dumps(WIDTHS)};{MEASURE}</script></body>",
        encoding="utf-8",
    )
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory / 'browser'}",
               "--window-size=2000,1000", "--virtual-time-budget=20000", "--dump-dom", harness.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="result">([^<]*)</pre>', shown.stdout)
    if shown.returncode != 0 or not found:
        sys.exit(f"the browser failed with {shown.returncode}: {shown.stderr[-2000:]}{shown.stdout[-500:]}")
    from urllib.parse import unquote

    result = json.loads(unquote(found[1]))
    return result["wrong"], result["figures"]


def make_pages(program, directory):
    """Name -> text of a page of each kind, from runs that take seconds."""

    def run(*words):
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, cwd=directory)
        if done.returncode != 0:
            sys.exit(f"{program} {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}")

    text = "the cat sat on the mat and the dog lay on the rug while it rained\n"
    (directory / "corpus.txt").write_text(text * 60, encoding="utf-8")
    run("tokenizer", "train", "--output_dir", "tokenizer", "--vocab_size", 300, "corpus.txt")
    for name, rate in ("first", 1e-3), ("second", 2e-3):
        run("train", "--task", "causal-lm", "--model_type", "gpt2", "--tokenizer_name", "tokenizer",
            "--config_overrides", "n_layer=2,n_head=2,n_embd=32,n_positions=32,vocab_size=300", "--block_size", 32,
            "--train_file", "corpus.txt", "--validation_file", "corpus.txt", "--output_dir", name, "--max_steps", 12,
            "--logging_steps", 1, "--eval_strategy", "steps", "--eval_steps", 3, "--save_strategy", "steps", "--save_steps", 6,
            "--learning_rate", rate, "--report_to", "html", "--profile", 2)
    run("compare", "first", "second", "--report", "compare.html")
    run("anatomy", "--model", "bert-mini", "--per_device_train_batch_size", 2, "--sequence_length", 32, "--steps", 1,
        "--no_limits", "--report", "anatomy.html")
    run("bench", "batch", "--model", "bert-mini", "--sequence_length", 16, "--max", 4, "--report", "batch.html")
    run("bench", "ladder", "--quick", "--sequence_length", 16, "--rungs", "batch_4,checkpointing,adafactor", "--report",
        "ladder.html")
    run("bench", "quality", "--quick", "--rungs", "bf16,sgd,layer_major", "--report", "quality.html")
    run("fit", "--model", "bert-mini", "--sequence_length", 64, "--allow", "numerics", "--memory_budget", "200MiB", "--report",
        "fit.html")
    pages = {"the page of a run": "first/report.html"}
    pages.update({name: f"{name}.html" for name in ("compare", "anatomy", "batch", "ladder", "quality", "fit")})
    return {name: (directory / path).read_text(encoding="utf-8") for name, path in pages.items()}


def main(words):
    browser = find_browser()
    if browser is None:
        print("skipped: no Chromium here; apt-get install chromium, or set SHOEHORN_BROWSER")
        return SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        if words[0] == "--pages":
            pages = {path: pathlib.Path(path).read_text(encoding="utf-8") for path in words[1:]}
        else:
            pages = make_pages(pathlib.Path(words[0]).resolve(), directory)
        failed = False
        for name, text in pages.items():
            wrong, figures = look_at(browser, text, directory)
            print(f"{name}: {figures} figures, {len(wrong) or 'nothing'} wrong")
            for line in wrong:
                print(f"  {line}")
            failed |= bool(wrong) or figures == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
