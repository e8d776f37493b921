"use strict";
// The timeline of a report: reads the traces that are in the page (Chrome's trace event format) and draws them on a canvas.
(function () {
  const started = performance.now(), ROW = 18, GAP = 5, HEAD = 22, NAMES = 168;
  const canvas = document.getElementById("canvas");
  if (!canvas) return;
  document.body.classList.add("moves");
  const box = document.getElementById("lanes"), tip = document.getElementById("tip"), chosen = document.getElementById("chosen");
  const search = document.getElementById("search"), found = document.getElementById("found"), draw2d = canvas.getContext("2d");

  // ---- data: tracks of slices, in the order of their begins, and arrows between them
  let tracks = [], arrows = [];
  function read(id) {
    const element = document.getElementById(id);
    if (!element) return;
    const trace = JSON.parse(element.textContent), processes = {}, threads = {}, ends = {};
    for (const e of trace.traceEvents) { // a thread's record may be after arrows from it
      if (e.ph === "M" && e.name === "process_name") processes[e.pid] = e.args.name;
      else if (e.ph === "M" && e.name === "thread_name") {
        threads[e.tid] = { made: id, process: processes[e.pid], pid: e.pid, tid: e.tid, name: e.args.name, slices: [], longest: 0 };
        tracks.push(threads[e.tid]);
      }
    }
    for (const e of trace.traceEvents) {
      if (e.ph === "X") {
        const t = threads[e.tid], s = { begin: e.ts, end: e.ts + e.dur, name: e.name, cat: e.cat, args: e.args, track: t, depth: 0 };
        t.slices.push(s);
        if (e.dur > t.longest) t.longest = e.dur;
      } else if (e.ph === "s") ends[e.id] = { from: threads[e.tid], at: e.ts };
      else if (e.ph === "f" && ends[e.id]) arrows.push({ from: ends[e.id].from, at: ends[e.id].at, to: threads[e.tid], when: e.ts });
    }
    for (const tid in threads) {
      const t = threads[tid];
      t.slices.sort((a, b) => a.begin - b.begin || b.end - a.end);
      const open = [];
      t.depth = 1;
      for (const s of t.slices) { // slices within slices are drawn below them
        while (open.length && open[open.length - 1].end <= s.begin + 5e-3) open.pop();
        s.depth = open.length;
        t.depth = Math.max(t.depth, s.depth + 1);
        open.push(s);
      }
    }
  }
  read("predicted");
  read("measured");
  // the program first, then each device: predicted above measured
  tracks.sort((a, b) => a.pid - b.pid || (a.made === b.made ? a.tid - b.tid : a.made === "predicted" ? -1 : 1));
  // devices that are predicted to do the same at the same times are drawn once
  const same = (s, o) => s.name === o.name && s.begin === o.begin && s.end === o.end;
  const alike = (t, o) => t.name === o.name && t.slices.length === o.slices.length && t.slices.every((s, k) => same(s, o.slices[k]));
  function fold() {
    const devices = [];
    for (const t of tracks) if (t.made === "predicted" && t.process.startsWith("device ")) {
      if (!devices.length || devices[devices.length - 1][0].pid !== t.pid) devices.push([]);
      devices[devices.length - 1].push(t);
    }
    let drawn = null;
    for (const d of devices) {
      const as = drawn && drawn.length === d.length && d.every((t, k) => alike(t, drawn[k])) ? drawn : null;
      if (!as) drawn = d;
      for (let k = 0; as && k < d.length; k++) {
        d[k].as = as[k];
        as[k].drawn = (as[k].drawn || 1) + 1;
        as[k].process = as[k].process.replace(/^(device \d+).*/, "$1–" + d[k].process.slice("device ".length));
      }
    }
    tracks = tracks.filter((t) => !t.as);
    arrows = arrows.filter((a) => !a.from.as && !a.to.as);
  }
  fold();
  let first = Infinity, last = -Infinity, height = HEAD;
  for (const t of tracks) {
    if (t !== tracks[0] && (t.pid !== before.pid || t.made !== before.made)) height += GAP;
    t.top = height;
    height += t.depth * ROW;
    for (const s of t.slices) if (s.cat !== "loop") { first = Math.min(first, s.begin); last = Math.max(last, s.end); }
    var before = t;
  }
  if (!tracks.length) return;
  for (const t of tracks) if (t.name === "steps") for (const s of t.slices) first = Math.min(first, s.begin);
  const begin = Math.max(first, stepsBegin()), whole = { from: begin, to: Math.max(last, begin + 1) };
  function stepsBegin() {
    let at = Infinity;
    for (const t of tracks) if (t.name === "steps" && t.slices.length) at = Math.min(at, t.slices[0].begin);
    return at === Infinity ? first : at;
  }
  let view = { from: whole.from, to: whole.to }, width = 0, matches = new Set(), list = [], at = -1, selected = null, pending = false;

  // ---- colours
  const root = document.documentElement, dark = () => !root.classList.contains("paper") && matchMedia("(prefers-color-scheme: dark)").matches;
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const SHADES = [-5, 0, 5], FIXED = { copy: "#2a9d8f", comm: "#d9541e", host: "#a07850", loop: "#8a8f98" }, own = {};
  let named = {}; // colours of the style, read once a theme
  function variable(name) {
    return name in named ? named[name] : (named[name] = style(name));
  }
  // what a call is for has a hue, its layer a shade, so that neighbours differ
  function colour(s) {
    if (s.cat === "wait" || s.cat === "step") return variable("--" + s.cat);
    if (FIXED[s.cat]) return FIXED[s.cat];
    const role = (s.args.role || "forward").split(" ")[0], key = role + " " + (s.args.layer || s.name);
    if (!(key in own)) {
      let h = 7;
      for (const c of key) h = (h * 31 + c.charCodeAt(0)) % 997;
      const hue = variable(role === "backward" || role === "update" ? "--" + role : "--forward");
      own[key] = hue.replace(/(\d+)%\)$/, (_, light) => +light + SHADES[h % 3] + "%)");
    }
    return own[key];
  }

  // ---- drawing
  const x = (us) => NAMES + ((us - view.from) / (view.to - view.from)) * (width - NAMES);
  const us = (px) => view.from + ((px - NAMES) / (width - NAMES)) * (view.to - view.from);
  function time(v) {
    const size = Math.abs(v);
    return size >= 1e6 ? +(v / 1e6).toPrecision(4) + " s" : size >= 1e3 ? +(v / 1e3).toFixed(3) + " ms" : +v.toFixed(2) + " µs";
  }
  function tickTime(v, step) { // all in one unit, with the digits that tell them apart
    const unit = view.to >= 1e6 ? 1e6 : view.to >= 1e3 ? 1e3 : 1, digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
    return (v / unit).toFixed(digits) + (unit === 1e6 ? " s" : unit === 1e3 ? " ms" : " µs");
  }
  function ticks() {
    const rough = (view.to - view.from) / 8, unit = Math.pow(10, Math.floor(Math.log10(rough)));
    return rough > 5 * unit ? 10 * unit : rough > 2 * unit ? 5 * unit : rough > unit ? 2 * unit : unit;
  }
  function firstShown(t) { // the first slice that may reach into the view
    let low = 0, high = t.slices.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (t.slices[middle].begin < view.from - t.longest) low = middle + 1; else high = middle;
    }
    return low;
  }
  function paint() {
    pending = false;
    const ratio = window.devicePixelRatio || 1, ink = style("--ink"), soft = style("--soft"), faint = style("--faint"), mark = style("--mark");
    width = box.clientWidth;
    canvas.width = width * ratio;
    canvas.height = (height + 4) * ratio;
    canvas.style.height = height + 4 + "px";
    draw2d.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw2d.fillStyle = style("--paper");
    draw2d.fillRect(0, 0, width, height + 4);
    draw2d.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    draw2d.textBaseline = "middle";
    const step = ticks();
    for (let k = Math.ceil(view.from / step); k * step <= view.to; k++) {
      draw2d.fillStyle = faint;
      draw2d.fillRect(Math.round(x(k * step)), HEAD - 6, 1, height);
      draw2d.fillStyle = soft;
      draw2d.fillText(tickTime(k * step, step), x(k * step) + 3, HEAD / 2);
    }
    for (const t of tracks) paintTrack(t, ink, soft, mark);
    paintArrows(ink);
  }
  function paintTrack(t, ink, soft, mark) {
    let until = [];
    draw2d.fillStyle = soft;
    draw2d.fillText((t.process + " " + t.name).replace("program ", ""), 6, t.top + ROW / 2);
    if (t.made === "measured") draw2d.fillText("measured", NAMES - 56, t.top + ROW / 2);
    draw2d.save();
    draw2d.beginPath();
    draw2d.rect(NAMES, 0, width - NAMES, height + 4);
    draw2d.clip();
    for (let i = firstShown(t); i < t.slices.length; i++) {
      const s = t.slices[i];
      if (s.begin > view.to) break;
      if (s.end < view.from) continue;
      const x0 = x(s.begin), x1 = Math.max(x(s.end), x0 + .6), hit = matches.has(s);
      if (x1 < (until[s.depth] || -1) + .5 && !hit && s !== selected) continue; // what is thinner than a pixel is drawn once
      until[s.depth] = x1;
      draw2d.fillStyle = hit ? mark : colour(s);
      draw2d.fillRect(x0, t.top + s.depth * ROW + 1, x1 - x0, ROW - 3);
      if (s === selected) {
        draw2d.strokeStyle = ink;
        draw2d.lineWidth = 1.5;
        draw2d.strokeRect(x0, t.top + s.depth * ROW + 1, x1 - x0, ROW - 3);
      }
      if (x1 - x0 > 34) {
        const from = Math.max(x0, NAMES), room = x1 - from - 6, letters = Math.floor(room / 6.1);
        draw2d.fillStyle = s.cat === "wait" ? soft : s.cat === "comp" || s.cat === "step" || hit ? (dark() && !hit ? "#fff" : "#14181c") : "#fff";
        if (letters > 3) draw2d.fillText(s.name.length > letters ? s.name.slice(0, letters - 1) + "…" : s.name, from + 3, t.top + s.depth * ROW + ROW / 2);
      }
    }
    draw2d.restore();
  }
  function touches(s) { // arrows into the slice, and out of it
    return arrows.filter((a) => (a.to === s.track && a.when >= s.begin - .002 && a.when <= s.end + .001) || (a.from === s.track && a.at >= s.begin - .002 && a.at <= s.end + .001));
  }
  function paintArrows(ink) {
    if (!selected) return;
    draw2d.strokeStyle = draw2d.fillStyle = ink;
    draw2d.lineWidth = 1.2;
    for (const a of touches(selected)) {
      const x0 = x(a.at), y0 = a.from.top + ROW / 2, x1 = x(a.when), y1 = a.to.top + ROW / 2;
      draw2d.beginPath();
      draw2d.moveTo(x0, y0);
      draw2d.bezierCurveTo(x0 + 24, y0, x1 - 24, y1, x1, y1);
      draw2d.stroke();
      draw2d.beginPath();
      draw2d.moveTo(x1, y1);
      draw2d.lineTo(x1 - 7, y1 - 4);
      draw2d.lineTo(x1 - 7, y1 + 4);
      draw2d.fill();
    }
  }
  function update() {
    if (!pending) { pending = true; requestAnimationFrame(paint); }
  }

  // ---- what is under the pointer
  function sliceAt(px, py) {
    const t = tracks.find((t) => py >= t.top && py < t.top + t.depth * ROW), when = us(px), reach = ((view.to - view.from) / width) * 2;
    if (!t || px < NAMES) return null;
    let best = null;
    for (let i = firstShown(t); i < t.slices.length && t.slices[i].begin <= when + reach; i++) {
      const s = t.slices[i];
      if (s.end + reach >= when && Math.floor((py - t.top) / ROW) === s.depth && (!best || Math.abs(s.begin + s.end - 2 * when) < Math.abs(best.begin + best.end - 2 * when))) best = s;
    }
    return best;
  }
  function amount(v, units) {
    let k = 0;
    while (v >= 1000 && k + 1 < units.length) { v /= 1000; k++; }
    return +v.toPrecision(4) + " " + units[k];
  }
  function words(s) {
    const a = s.args, lines = [s.name, time(s.end - s.begin) + ", from " + time(s.begin - whole.from)];
    if (a.layer) lines.push("layer " + a.layer);
    if (a.line) lines.push("line " + a.line);
    if (a.op) lines.push((s.cat === "wait" ? "waits for " : "operation ") + a.op + (a.kernel ? ", kernel " + a.kernel : "") + (a.phase ? ", " + a.phase : ""));
    if (a.step) lines.push("step " + a.step);
    if (a.bytes) lines.push(amount(a.bytes, ["B", "kB", "MB", "GB", "TB"]) + ", " + amount(a.bytes / (s.end - s.begin) * 1e6, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]));
    if (a.flops) lines.push(amount(a.flops, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"]) + ", " + amount(a.flops / (s.end - s.begin) * 1e6, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"]));
    return lines;
  }
  function nameAt(track, when) {
    const s = track.slices.find((s) => s.begin - .002 <= when && when <= s.end + .001 && s.cat !== "wait");
    return track.process + " " + track.name + ": " + (s ? s.name : "?");
  }
  function choose(s) {
    selected = s;
    if (!s) { chosen.textContent = ""; return update(); }
    const lines = [s.track.process + " " + s.track.name + ": " + words(s).join(", ")];
    for (const a of touches(s)) lines.push(a.to === s.track && a.when >= s.begin - .002 && a.when <= s.end + .001 ? "  after " + nameAt(a.from, a.at) : "  before " + nameAt(a.to, a.when));
    chosen.textContent = lines.join("\n");
    update();
  }

  // ---- moving
  function show(from, to) {
    const least = .02, most = (whole.to - whole.from) * 1.2;
    const size = Math.min(Math.max(to - from, least), most), middle = (from + to) / 2;
    view = { from: middle - size / 2, to: middle + size / 2 };
    update();
  }
  function zoom(factor, px) {
    const centre = us(px === undefined ? (width + NAMES) / 2 : px);
    show(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  }
  function move(share) { const by = share * (view.to - view.from); show(view.from + by, view.to + by); }
  const all = () => show(whole.from, whole.to);
  box.addEventListener("wheel", (e) => {
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) move((e.deltaX || e.deltaY) / 1000);
    else zoom(Math.pow(1.0015, e.deltaY), e.offsetX);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (e) => { drag = { x: e.offsetX, from: view.from, to: view.to, moved: false }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => {
    if (drag) {
      drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) > 3;
      const by = ((drag.x - e.offsetX) / (width - NAMES)) * (drag.to - drag.from);
      if (drag.moved) show(drag.from + by, drag.to + by);
      return;
    }
    const s = sliceAt(e.offsetX, e.offsetY);
    tip.hidden = !s;
    if (!s) return;
    tip.textContent = words(s).join("\n");
    tip.style.left = Math.min(e.offsetX + 14, Math.max(width - 330, 0)) + "px";
    tip.style.top = e.offsetY + 16 + "px";
  });
  canvas.addEventListener("pointerup", (e) => { if (drag && !drag.moved) choose(sliceAt(e.offsetX, e.offsetY)); drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  function jump(to) {
    if (!list.length) return;
    at = (to + list.length) % list.length;
    const s = list[at], size = Math.max((s.end - s.begin) * 12, (view.to - view.from) * .02);
    choose(s);
    show((s.begin + s.end) / 2 - size / 2, (s.begin + s.end) / 2 + size / 2);
    found.textContent = at + 1 + " of " + list.length;
  }
  function look() {
    const text = search.value.trim().toLowerCase(), line = /^line:(\d+)$/.exec(text);
    list = [];
    at = -1;
    if (text) for (const t of tracks) for (const s of t.slices)
      if (line ? s.args.line === +line[1] && s.cat !== "wait" : s.name.toLowerCase().includes(text) || (s.args.op || "").toLowerCase() === text || (s.args.layer || "").toLowerCase().includes(text)) list.push(s);
    matches = new Set(list);
    found.textContent = text ? list.length + " found" : "";
    update();
  }
  search.addEventListener("input", look);
  search.addEventListener("keydown", (e) => { if (e.key === "Enter") jump(e.shiftKey ? at - 1 : at + 1); if (e.key === "Escape") { search.value = ""; look(); box.focus(); } e.stopPropagation(); });
  document.getElementById("in").onclick = () => zoom(.5);
  document.getElementById("out").onclick = () => zoom(2);
  document.getElementById("fit").onclick = all;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "INPUT") return;
    const key = { "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1.6), ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), 0: all,
      n: () => jump(at + 1), N: () => jump(at - 1), "/": () => search.focus(), Escape: () => choose(null) }[e.key];
    if (key) { e.preventDefault(); key(); }
  });
  window.addEventListener("resize", update);
  function recolour() {
    for (const k in own) delete own[k];
    named = {};
    paint();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  for (const [event, paper] of [["beforeprint", true], ["afterprint", false]]) // paper is light
    window.addEventListener(event, () => { root.classList.toggle("paper", paper); recolour(); });
  function frame() { // milliseconds of the fastest of three frames with all that there is
    let least = Infinity;
    for (let i = 0; i < 3; i++) {
      const began = performance.now();
      paint();
      least = Math.min(least, performance.now() - began);
    }
    return least;
  }
  paint();
  document.body.dataset.paint = (performance.now() - started).toFixed(1); // of reading and of drawing all
  document.body.dataset.frame = frame().toFixed(1);
  if (location.hash.startsWith("#find=")) { // report.html#find=conv2
    search.value = decodeURIComponent(location.hash.slice(6));
    look();
    jump(0);
  }
  document.body.dataset.slices = tracks.reduce((n, t) => n + t.slices.length * (t.drawn || 1), 0); // also of what is drawn with others
})();
