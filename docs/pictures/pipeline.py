# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draw pipeline.svg, the README's picture of the card.

python3 docs/pictures/pipeline.py           writes docs/pictures/pipeline.svg
python3 docs/pictures/pipeline.py --check   fails if the file differs from what it would write
"""
import sys
from pathlib import Path

WIDTH, HEIGHT, BOX = 960, 400, 34
# Each box: name, left edge, top edge, width.
HOST = [("doorbell", 130, 50, 84)]
SEND = [("schedule", 234, 50, 84), ("fetch WQE", 338, 50, 88), ("segment", 446, 50, 80), ("arbitrate", 612, 50, 82),
        ("build", 710, 50, 62), ("icrc", 788, 50, 56)]
MEMORY = [("keys and page tables", 404, 142, 164), ("DMA", 234, 142, 84)]
COMPLETE = [("completer", 234, 224, 98)]
RESPOND = [("acknowledge", 234, 306, 98), ("place", 352, 306, 68), ("check", 440, 306, 68)]
RECEIVE = [("dispatch", 534, 306, 78), ("icrc", 688, 306, 56), ("parse", 762, 306, 82)]
# Each arrow: points of a polyline.
ARROWS = [
    [(100, 67), (130, 67)], [(214, 67), (234, 67)], [(318, 67), (338, 67)], [(426, 67), (446, 67)],
    [(526, 67), (612, 67)], [(694, 67), (710, 67)], [(772, 67), (788, 67)], [(844, 67), (880, 67)],
    [(486, 84), (486, 142)], [(404, 159), (318, 159)], [(234, 159), (100, 159)],
    [(880, 323), (844, 323)], [(762, 323), (744, 323)], [(688, 323), (612, 323)], [(534, 323), (508, 323)],
    [(440, 323), (420, 323)], [(352, 323), (332, 323)],
    [(386, 306), (386, 282), (510, 282), (510, 176)],
    [(573, 306), (573, 241), (332, 241)], [(234, 241), (100, 241)], [(276, 224), (276, 196), (218, 196), (218, 104), (276, 104), (276, 84)],
    [(283, 340), (283, 368), (653, 368), (653, 84)],
]
NOTES = [(494, 118, "payload", "start"), (662, 200, "ACK, NAK, READ responses", "start"),
         (348, 233, "ACK, NAK, READ data", "start"), (166, 233, "CQE, event", "middle"),
         (212, 120, "window, restart", "end")]
STYLE = """
text { font: 14px sans-serif; fill: #1f2328; text-anchor: middle; }
.note { font-size: 12px; fill: #57606a; }
.side { font-weight: bold; }
rect { stroke: #57606a; stroke-width: 1.2; rx: 5; }
.page { fill: #ffffff; stroke: #d0d7de; }
.host { fill: #eaeef2; } .send { fill: #ddf4ff; } .memory { fill: #fff8c5; }
.complete { fill: #fbefff; } .respond { fill: #dafbe1; } .receive { fill: #dafbe1; }
polyline { fill: none; stroke: #57606a; stroke-width: 1.4; marker-end: url(#tip); }
"""


def box(kind, name, x, y, width, height=BOX):
    return (f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>'
            f'<text x="{x + width / 2:g}" y="{y + height / 2 + 5:g}">{name}</text>')


def svg():
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
             '<!-- Made by docs/pictures/pipeline.py -->',
             '<title>The card: from the host through the pipeline to the wire, and back</title>',
             f"<style>{STYLE}</style>",
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path d="M0 0 L8 4 L0 8 z" fill="#57606a"/></marker></defs>',
             f'<rect class="page" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}"/>',
             box("host", "", 16, 40, 84, 300), '<text class="side" x="58" y="195">host</text>',
             box("host", "", 880, 40, 64, 300), '<text class="side" x="912" y="195">wire</text>',
             '<text class="note" x="390" y="34">requester</text>', '<text class="note" x="728" y="34">transmit</text>',
             '<text class="note" x="346" y="390">responder</text>', '<text class="note" x="766" y="362">receive</text>']
    for points in ARROWS:
        lines.append('<polyline points="' + " ".join(f"{x},{y}" for x, y in points) + '"/>')
    for kind, boxes in [("host", HOST), ("send", SEND), ("memory", MEMORY), ("complete", COMPLETE), ("respond", RESPOND),
                        ("receive", RECEIVE)]:
        lines += [box(kind, *one) for one in boxes]
    for x, y, text, anchor in NOTES:
        lines.append(f'<text class="note" style="text-anchor: {anchor}" x="{x}" y="{y}">{text}</text>')
    return "\n".join(lines + ["</svg>", ""])


def main():
    path = Path(__file__).with_suffix(".svg")
    if "--check" not in sys.argv:
        path.write_text(svg())
    elif not path.exists() or path.read_text() != svg():
        sys.exit(f"{path.name} is stale: run python3 docs/pictures/pipeline.py")


if __name__ == "__main__":
    main()
