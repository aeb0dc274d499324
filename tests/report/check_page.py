#!/usr/bin/env python3
"""Checks an HTML page of results: PAGE FIGURES. Prints a line for each fault; exit status 1 for any."""
import base64
import sys
from html.parser import HTMLParser

VOID = {"meta", "input", "img", "br", "hr", "wbr"}
faults = []


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.contents, self.places, self.images = [], [], [], [], [], 0

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.ids += [a["id"]] if "id" in a else []
        if "href" in a:
            self.links.append(a["href"])
            self.contents += [a["href"]] if "nav" in self.open else []
        if tag in {"h2", "h3", "h4", "h5", "h6", "details", "figure"}:
            self.places.append(a.get("id", ""))
        if tag == "img":
            self.images += 1
            kind, _, data = a.get("src", "").partition(",")
            if kind != "data:image/svg+xml;base64" or b"</svg>" not in base64.b64decode(data, validate=True):
                faults.append(f"a picture is not an SVG in the page: {kind[:60]}")
            if not a.get("alt"):
                faults.append("a picture has no text")
        if tag in {"script", "link", "iframe", "object"}:
            faults.append(f"the page has <{tag}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            faults.append(f"</{tag}> closes something else, line {self.getpos()[0]}")


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
if ["#" + place for place in page.places] != page.contents or not page.places:
    faults.append("the contents are not the headings, folds and figures in their order")
if page.images != int(sys.argv[2]):
    faults.append(f"{page.images} pictures; expected {sys.argv[2]}")
print("\n".join(faults))
sys.exit(1 if faults else 0)
