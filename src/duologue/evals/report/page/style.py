"""The style sheet of the page."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --soft: #f6f8fa;
  --pass: #1a7f37; --fail: #cf222e; --mixed: #9a6700; --mark: #0969da; --track: #e6eaef; --add: #dafbe1;
  --cut: #ffebe9; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --dim: #9198a1;
  --line: #3d444d; --soft: #151b23; --pass: #3fb950; --fail: #f85149; --mixed: #d29922; --mark: #4493f8;
  --track: #2a313c; --add: #12361f; --cut: #421b1c; } }
* { box-sizing: border-box; }
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 76rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { border-bottom: 1px solid var(--line); font-size: 1.15rem; margin: 2.2rem 0 .8rem; padding-bottom: .3rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; } a { color: var(--mark); } .dim { color: var(--dim); } .facts { overflow-wrap: anywhere; }
code, pre { font: 12.5px/1.45 ui-monospace, monospace; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .7rem .4rem 0; text-align: left; vertical-align: middle; }
th { color: var(--dim); font-weight: 500; font-size: .85rem; white-space: nowrap; }
th.agent, td.name { max-width: 18rem; min-width: 10rem; overflow-wrap: anywhere; white-space: normal; }
td.name { font-weight: 600; } td.name .dim { font-weight: 400; }
td.number { text-align: right; white-space: nowrap; } td.nowrap { white-space: nowrap; }
.cell { display: block; min-width: 8.5rem; color: inherit; text-decoration: none; white-space: nowrap; }
.cell:hover { text-decoration: underline; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .mixed { color: var(--mixed); }
.none { color: var(--dim); }
.badge { border: 1px solid currentColor; border-radius: 1rem; font-size: .75rem; margin-left: .4rem; padding: 0 .5rem;
  white-space: nowrap; }
.verdict { margin: .3rem 0; } .shown { font-weight: 600; }
svg { display: block; height: auto; max-width: 100%; } td svg { max-width: none; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg .soft { fill: var(--dim); } svg .track { fill: var(--track); } svg .grid { stroke: var(--line); }
svg .axis { stroke: var(--dim); }
svg .front { fill: none; stroke: var(--mark); stroke-dasharray: 5 4; stroke-width: 1.5; }
svg .point { fill: var(--mark); } svg .limits { stroke: var(--mark); stroke-width: 2; }
svg .fill-pass { fill: var(--pass); } svg .fill-fail { fill: var(--fail); } svg .fill-mixed { fill: var(--mixed); }
svg .whisker { stroke: var(--text); stroke-width: 1.5; opacity: .55; }
svg .zero { stroke: var(--dim); stroke-dasharray: 3 3; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
details details { background: var(--page); } summary { cursor: pointer; overflow-wrap: anywhere; }
pre { background: var(--soft); border-radius: 4px; margin: .3rem 0; overflow-x: auto; overflow-wrap: anywhere;
  padding: .4rem .6rem; white-space: pre-wrap; }
pre .add { background: var(--add); display: block; } pre .cut { background: var(--cut); display: block; }
pre .same { display: block; } pre .same:empty::before { content: " "; }
.step { border-left: 3px solid var(--line); margin: .35rem 0; padding-left: .7rem; }
.step.prompt { border-color: var(--mark); }
.step.tool_call, .step.command, .step.file_write { border-color: var(--mixed); }
.step.message { border-color: var(--pass); } .step.error { border-color: var(--fail); }
.to-agent { border-left: 3px solid var(--mark); } .to-client { border-left: 3px solid var(--mixed); }
:target { outline: 2px solid var(--mark); outline-offset: 3px; }
@media (max-width: 40rem) { body { padding: .9rem; } th, td { padding-right: .5rem; } }
@media print { :root { color-scheme: light; font-size: 10px; } body { font-size: 10px; max-width: none; padding: 0; }
  .trials { display: none; } th, td { padding-right: .5rem; } th.agent, td.name { min-width: 9.5rem; }
  table { font-size: 9px; } td svg { width: 7rem; }
  h2, h2 + p { break-after: avoid; } tr, svg { break-inside: avoid; } .wide { overflow: visible; } }
"""
