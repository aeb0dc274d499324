#!/usr/bin/env python3
"""Checks that each link and picture of a site leads to a file of the site, and to a place in it. Prints
those that do not. Argument: the site's folder."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.places, self.links = {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        self.links += [attrs[key] for key in ("href", "src") if attrs.get(key)]


site = Path(sys.argv[1]).resolve()
pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
broken = count = 0
for path, page in pages.items():
    for link in page.links:
        url = urlsplit(link)
        if url.scheme or url.netloc:
            continue
        count += 1
        target = (path.parent / unquote(url.path)).resolve() if url.path else path
        place = unquote(url.fragment)
        if not target.exists() or place and target in pages and place not in pages[target].places:
            print(f"{path.relative_to(site)}: '{link}'")
            broken += 1
print(f"{len(pages)} pages, {count} links, {broken} of them broken")
sys.exit(broken > 0)
