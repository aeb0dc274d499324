#!/usr/bin/env python3
"""Checks an HTML page of results: PAGE FIGURES. Prints a line for each fault; exit status 1 for any."""
import base64
import sys
from html.parser import HTMLParser

VOID = {"meta", "input", "img", "br", "hr"}
VERDICTS = {"compute-bound": "good", "loader-bound": "warn", "communication-bound": "warn", "PASS": "good", "FAIL": "bad"}
faults = []


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.headings, self.images, self.zooms = [], [], [], [], 0, 0
        self.cell, self.text, self.style, self.boxed = None, "", "", True

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.ids += [a["id"]] if "id" in a else []
        if "href" in a:
            self.links.append(a["href"])
        if tag[0] == "h" and tag[1:] in "23456":
            self.headings.append(a.get("id", ""))
        if tag == "img":
            self.images += 1
            self.zooms += self.open[-2:] == ["label", "span"]
            kind, _, data = a.get("src", "").partition(",")
            if kind != "data:image/svg+xml;base64" or b"</svg>" not in base64.b64decode(data, validate=True):
                faults.append(f"a picture is not an SVG in the page: {kind[:60]}")
            if not a.get("alt"):
                faults.append("a picture has no text")
        if tag == "table" and self.open[-1] != "div":
            faults.append("a table has no box to scroll in")
        if tag == "td":
            self.cell, self.text = a.get("class", ""), ""
        if tag in {"script", "link", "iframe", "object"}:
            faults.append(f"the page has <{tag}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            faults.append(f"</{tag}> closes something else, line {self.getpos()[0]}")
        if tag == "td":
            tone = VERDICTS.get(self.text)
            if tone and self.cell != f"verdict {tone}":
                faults.append(f"the verdict '{self.text}' has the class '{self.cell}'")
            if " to " in self.text and self.text[0].isdigit() and len(self.text) < 40 and self.cell != "number" and " s to " not in self.text:
                faults.append(f"the interval '{self.text}' may be broken over lines")
            self.cell = None

    def handle_data(self, data):
        self.text += data if self.cell is not None else ""
        self.style += data if self.open[-1:] == ["style"] else ""


page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
page.close()
if page.open:
    faults.append(f"not closed: {page.open}")
if len(set(page.ids)) != len(page.ids):
    faults.append("an id occurs twice")
for link in page.links:
    if link[0] != "#" or link[1:] not in page.ids:
        faults.append(f"the link '{link}' leads nowhere")
if ["#" + h for h in page.headings] != [link for link in page.links if link != "#contents"]:
    faults.append("the contents are not the headings in their order")
if not page.headings:
    faults.append("the page has no headings")
if not page.images == page.zooms == int(sys.argv[2]):
    faults.append(f"{page.images} pictures, of which {page.zooms} can be enlarged; expected {sys.argv[2]}")
# The rule for verdicts has the same specificity as the rule for first columns. It must come later,
# because a verdict may be in a first column.
if not 0 < page.style.find(".table td:first-child {") < page.style.find("td.verdict.bad {"):
    faults.append("a verdict in the first column has no colour")
for rule in ("td.number, td.verdict { white-space: nowrap }", ".table { overflow-x: auto", "td.bad::before { content:", "input:checked + span { position: fixed"):
    if rule not in page.style:
        faults.append(f"the style lacks '{rule}'")
print("\n".join(faults))
sys.exit(1 if faults else 0)
