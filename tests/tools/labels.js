// labels.js PAGE: runs the script of a report where there is no browser, and prints what its canvas writes beside its lanes.
"use strict";
const page = require("fs").readFileSync(process.argv[2], "utf8");
const script = page.slice(page.lastIndexOf("<script>") + "<script>".length, page.lastIndexOf("</script>"));
const texts = {};
for (const m of page.matchAll(/<script type="application\/json" id="(\w+)">([^]*?)<\/script>/g)) texts[m[1]] = m[2];
const nothing = () => {};
const canvas2d = new Proxy({}, { get: (_, name) => (name === "fillText" ? (text, x) => x === 6 && console.log(text) : nothing), set: () => true });
function element(id) {
  return { textContent: texts[id], clientWidth: 1000, hidden: false, style: {}, classList: { add: nothing, toggle: nothing, contains: () => false }, dataset: {},
    addEventListener: nothing, getContext: () => canvas2d, setPointerCapture: nothing, focus: nothing, value: "" };
}
const known = ["canvas", "lanes", "tip", "chosen", "search", "found", "in", "out", "fit"];
const document = { body: element("body"), documentElement: element("html"), addEventListener: nothing,
  getElementById: (id) => (known.includes(id) || id in texts ? element(id) : null) };
const window = { addEventListener: nothing, devicePixelRatio: 1 };
new Function("document", "window", "getComputedStyle", "matchMedia", "requestAnimationFrame", "location", "performance", script)(
  document, window, () => ({ getPropertyValue: () => "hsl(0 0% 50%)" }), () => ({ matches: false, addEventListener: nothing }), nothing, { hash: "" },
  { now: () => 0 });
