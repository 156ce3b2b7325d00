/* A timeline on a canvas: packed events (kerneldb/report/events.py) in rows, drawn at most once per pixel. Items of rows that are `summed` may stand for
   several events, `many`, which took `busy` together. */
"use strict";
const Timeline = (() => {
  const {first, time} = Packed;
  const TOP = 22, GAP = 8, HEAD = 18, ROW = 15, COUNTER = 42;
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#bbbbbb"];
  const IDLE = {launching: "#ee6677", synchronisation: "#ccbb44", allocation: "#aa3377", "blocking copy": "#4477aa", "data loading": "#66ccee",
    "launch latency": "#bbbbbb", "between launches": "#bbbbbb", dependency: "#228833"};
  const KEYS = [["drag, ← →", "move"], ["wheel, + −", "zoom"], ["shift + drag, r", "choose a range, what is shown"], ["0", "whole trace"], ["g, shift + g", "largest gap, next gap"],
    ["[ ]", "event before, after"], ["↑ ↓", "lane above, below"], ["o", "close the lane, open all"], ["f", "from a kernel to its call and back"], ["Enter", "zoom to the event"], ["/", "search, then n and shift + n"], ["Esc", "choose nothing"]];

  /* Black or white, whichever can be read on a colour. */
  function on(colour) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return colour.length < 7 ? "#888" : 0.3 * red + 0.59 * green + 0.11 * blue > 125 ? "#000" : "#fff";
  }

  function element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  class View {
    constructor(box, data) {
      this.box = box;
      this.data = data;
      this.closed = new Set(data.lanes.filter((lane) => lane.lane === "Python").map((lane) => this.key(lane)));
      this.end = Math.max(1, data.end);
      this.from = 0; this.to = this.end;
      this.chosen = this.range = this.matches = null;
      this.paints();
      this.gaps = this.largest();
      this.build();
      this.arrange();
      this.resize();
    }

    paints() { this.colours = this.data.names.map((name, i) => this.colour(this.data.categories[i], name)); }
    key(lane) { return `${lane.place}\n${lane.lane}`; }

    colour(category, name) {
      if (category?.startsWith("idle: ")) return IDLE[category.slice(6)] ?? "#777777";
      this.seen ??= new Map();
      const shown = category || name.split(/[(<\[ ]/)[0];
      if (!this.seen.has(shown)) this.seen.set(shown, COLOURS[this.seen.size % COLOURS.length]);
      return this.seen.get(shown);
    }

    largest() {
      const found = [];
      for (const lane of this.data.lanes) if (lane.lane === "idle") for (let i = 0; i < lane.n; i++) found.push([lane.length[i], lane, i]);
      return found.sort((one, other) => other[0] - one[0]).slice(0, 1000);
    }

    build() {
      const bar = element("div", undefined, {class: "tl-bar"});
      this.search = element("input", undefined, {type: "search", placeholder: "Search names", "aria-label": "Search names of events"});
      this.said = element("span", "", {class: "dim"});
      bar.append(this.search);
      for (const [text, title, act] of [["−", "Zoom out", () => this.zoom(2)], ["+", "Zoom in", () => this.zoom(0.5)], ["whole", "Whole trace (0)", () => this.show(0, this.end)],
        ["largest gap", "Largest idle gap (g)", () => this.gap(0)], ["?", "Keys", () => this.help()]]) {
        const button = element("button", text, {type: "button", title});
        button.addEventListener("click", act);
        bar.append(button);
      }
      bar.append(this.said, this.legend());
      this.scroll = element("div", undefined, {class: "tl-scroll"});
      this.canvas = element("canvas", undefined, {tabindex: "0", role: "img", "aria-label": this.words()});
      this.scroll.append(this.canvas);
      this.told = element("div", undefined, {class: "tl-told", "aria-live": "polite"});
      this.box.replaceChildren(bar, this.scroll, this.told);
      this.pen = this.canvas.getContext("2d");
      this.listen();
      this.help();
    }

    words() {
      const n = this.data.events;
      const places = [...new Set(this.data.lanes.map((lane) => lane.place))];
      return `Timeline of ${time(this.end)}: ${n.toLocaleString("en")} events of ${places.join("; ")}. Keys: ${KEYS.map((pair) => pair.join(": ")).join("; ")}.`;
    }

    /* What the colours of launches and of idle times are, most time first. */
    legend() {
      const sums = new Map(), box = element("span", undefined, {class: "tl-legend"});
      for (const lane of this.data.lanes) {
        if (!lane.launches && lane.lane !== "idle") continue;
        for (let i = 0; i < lane.n; i++) {
          const category = this.data.categories[lane.name[i]] ?? "other", held = sums.get(category) ?? [0, this.colours[lane.name[i]]];
          held[0] += lane.busy?.[i] || lane.length[i];
          sums.set(category, held);
        }
      }
      for (const [category, [, colour]] of [...sums].sort((one, other) => other[1][0] - one[1][0]).slice(0, 12)) {
        const one = element("span", category), dot = element("i");
        dot.style.background = colour;
        one.prepend(dot);
        box.append(one);
      }
      return box;
    }

    listen() {
      const canvas = this.canvas;
      let pressed = null;
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.altKey && event.shiftKey) return;
        event.preventDefault();
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX / this.wide);
        else this.zoom(Math.exp(event.deltaY * 0.0015), this.at(event.offsetX));
      }, {passive: false});
      canvas.addEventListener("pointerdown", (event) => {
        pressed = {x: event.offsetX, y: event.offsetY, from: this.from, to: this.to, moved: false, choose: event.shiftKey || event.offsetY < TOP};
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (!pressed) { this.hover(event.offsetX, event.offsetY); return; }
        const by = event.offsetX - pressed.x;
        pressed.moved ||= Math.abs(by) > 3;
        if (!pressed.moved) return;
        if (pressed.choose) this.range = [this.at(pressed.x), this.at(event.offsetX)].sort((one, other) => one - other);
        else { const shift = -by / this.wide * (pressed.to - pressed.from); this.from = pressed.from + shift; this.to = pressed.to + shift; this.clamp(); }
        this.draw();
      });
      canvas.addEventListener("pointerup", (event) => {
        const was = pressed;
        pressed = null;
        if (!was) return;
        if (was.moved && was.choose) this.tell_range();
        else if (!was.moved) this.click(event.offsetX, event.offsetY);
      });
      canvas.addEventListener("keydown", (event) => this.press(event));
      this.search.addEventListener("input", () => this.find(this.search.value));
      this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1); });
      new ResizeObserver(() => requestAnimationFrame(() => { if (this.scroll.clientWidth !== this.wide + this.left) this.resize(); })).observe(this.scroll);
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }

    press(event) {
      const act = {
        ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), a: () => this.move(-0.2), d: () => this.move(0.2),
        "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1.7), w: () => this.zoom(0.6), s: () => this.zoom(1.7),
        0: () => this.show(0, this.end), g: () => this.gap(0), G: () => this.gap((this.gap_at ?? -1) + 1), "[": () => this.step(-1), "]": () => this.step(1), ",": () => this.step(-1), ".": () => this.step(1), c: () => this.follow(),
        f: () => this.follow(), Enter: () => this.fit(), "/": () => this.search.focus(), n: () => this.next(1), N: () => this.next(-1),
        Escape: () => { this.chosen = this.range = null; this.help(); this.draw(); }, "?": () => this.help(),
        ArrowUp: () => this.beside(-1), ArrowDown: () => this.beside(1), o: () => this.fold(), r: () => { this.range = [this.from, this.to]; this.tell_range(); this.draw(); },
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    }

    arrange() {
      this.rows = [];
      let y = TOP, last = null;
      for (const lane of this.data.lanes) {
        const key = this.key(lane);
        if (key !== last) { y += GAP; this.rows.push({head: lane, key, y, high: HEAD}); y += HEAD; last = key; }
        if (this.closed.has(key)) continue;
        this.rows.push({lane, y, high: ROW});
        y += ROW;
      }
      for (const counter of this.data.counters) {
        counter.most ??= counter.values.reduce((one, other) => Math.max(one, other), 0) || 1;
        this.rows.push({counter, y: y + GAP, high: COUNTER});
        y += COUNTER + GAP;
      }
      this.high = y + GAP;
    }

    resize() {
      const ratio = window.devicePixelRatio || 1, width = Math.max(320, this.scroll.clientWidth);
      this.left = width < 700 ? 4 : 190;
      this.wide = width - this.left;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${this.high}px`;
      this.canvas.width = width * ratio;
      this.canvas.height = Math.min(this.high * ratio, 16000);
      this.ratio = this.canvas.height / this.high;
      this.draw();
    }

    at(x) { return this.from + (x - this.left) / this.wide * (this.to - this.from); }
    x(t) { return this.left + (t - this.from) / (this.to - this.from) * this.wide; }
    clamp() {
      const span = Math.min(Math.max(this.to - this.from, 20), this.end * 1.02);
      this.from = Math.max(-this.end * 0.01, Math.min(this.from, this.end * 1.01 - span));
      this.to = this.from + span;
    }
    show(from, to) { this.from = from; this.to = to; this.clamp(); this.draw(); }
    move(by) { const span = this.to - this.from; this.show(this.from + by * span, this.to + by * span); }
    zoom(by, around = (this.from + this.to) / 2) { this.show(around - (around - this.from) * by, around + (this.to - around) * by); }

    draw() {
      if (this.waiting) return;
      this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(); });
    }

    paint() {
      const pen = this.pen, style = getComputedStyle(this.box);
      const [ink, dim, line, paper] = ["--ink", "--dim", "--line", "--paper"].map((name) => style.getPropertyValue(name).trim() || "#888");
      pen.setTransform(this.canvas.width / (this.wide + this.left), 0, 0, this.ratio, 0, 0);
      pen.fillStyle = paper;
      pen.fillRect(0, 0, this.wide + this.left, this.high);
      pen.font = "11px system-ui, sans-serif";
      pen.textBaseline = "middle";
      this.ruler(dim, line);
      for (const row of this.rows) {
        if (row.head) this.head(row, ink, line);
        else if (row.counter) this.counter(row, dim, line);
        else this.row(row, ink);
      }
      this.marks(ink);
    }

    ruler(dim, line) {
      const span = this.to - this.from, step = 10 ** Math.floor(Math.log10(span / 6)) * ([1, 2, 5, 10].find((by) => by * 10 ** Math.floor(Math.log10(span / 6)) >= span / 8) ?? 10);
      const pen = this.pen;
      for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
        const x = this.x(t);
        pen.fillStyle = line; pen.fillRect(x, TOP - 6, 1, this.high);
        pen.fillStyle = dim; pen.fillText(time(Math.round(t)), x + 3, TOP / 2);
      }
    }

    head(row, ink, line) {
      const pen = this.pen;
      pen.fillStyle = line; pen.fillRect(0, row.y, this.wide + this.left, 1);
      pen.fillStyle = ink;
      const {lane, place} = row.head, text = `${this.closed.has(row.key) ? "▸" : "▾"} ${lane === place ? lane : `${lane} · ${place}`}`;
      pen.fillText(text, 4, row.y + HEAD / 2 + 1);
    }

    counter(row, dim, line) {
      const {ts, values, name, unit, most} = row.counter, pen = this.pen, bottom = row.y + row.high;
      pen.fillStyle = dim;
      pen.fillText(name.slice(0, 30), 4, row.y + 8);
      pen.fillText(`to ${most.toLocaleString("en", {maximumSignificantDigits: 4})} ${unit ?? ""}`, 4, row.y + 22);
      pen.strokeStyle = COLOURS[0]; pen.beginPath();
      const origin = this.data.origin;
      let from = Math.max(0, first(ts, this.from + origin) - 1);
      for (let i = from; i < ts.length; i++) {
        const x = Math.max(this.left, this.x(ts[i] - origin)), y = bottom - values[i] / most * (row.high - 4);
        if (i === from) pen.moveTo(x, y);
        else { pen.lineTo(x, this.last_y); pen.lineTo(x, y); }
        this.last_y = y;
        if (ts[i] - origin > this.to) break;
      }
      pen.stroke();
      pen.fillStyle = line; pen.fillRect(this.left, bottom, this.wide, 1);
    }

    /* Events that are narrower than a pixel are drawn as one, and the search for the next begins after it. */
    row(row, ink) {
      const {start, length, name, n, many, busy} = row.lane, pen = this.pen, scale = this.wide / (this.to - this.from), ends = this.ends(row.lane);
      const high = ROW - 2, y = row.y + 1, right = this.left + this.wide, names = this.data.names, matches = this.matches;
      let i = first(ends, this.from), last = -1;
      while (i < n && start[i] <= this.to) {
        const x = Math.max(this.left, this.left + (start[i] - this.from) * scale);
        const stop = Math.min(right, this.left + (start[i] + length[i] - this.from) * scale), width = Math.max(stop - x, 0.8);
        const colour = matches && !matches.has(name[i]) ? "#8886" : this.colours[name[i]];
        const share = many?.[i] > 1 ? Math.min(1, busy[i] / Math.max(1, length[i])) : 1;
        if (share < 1) { pen.fillStyle = `${colour.slice(0, 7)}50`; pen.fillRect(x, y, width, high * (1 - share)); last = -1; }
        if (colour !== last) { pen.fillStyle = colour; last = colour; }
        pen.fillRect(x, y + high * (1 - share), width > 3 ? width - 0.5 : width, high * share);
        if (many?.[i] > 1) {
          if (width > 70) { pen.fillStyle = ink; last = -1; pen.fillText(`${many[i].toLocaleString("en")} events`, x + 3, y + high / 2 + 0.5); }
        } else if (width > 28) {
          pen.fillStyle = on(colour); last = -1;
          pen.fillText(names[name[i]].slice(0, Math.floor((width - 6) / 5.6)), x + 3, y + high / 2 + 0.5);
        }
        const following = this.from + (x + width - this.left) / scale;
        i = width < 1 && i + 1 < n && start[i + 1] < following ? Math.max(i + 1, first(start, following, i + 1)) : i + 1;
      }
    }

    /* The latest end up to each event: sorted, so that what reaches into the view is found. */
    ends(lane) {
      if (!lane.ends) {
        lane.ends = new Float64Array(lane.n);
        for (let i = 0, most = 0; i < lane.n; i++) lane.ends[i] = most = Math.max(most, lane.start[i] + lane.length[i]);
      }
      return lane.ends;
    }

    marks(ink) {
      const pen = this.pen;
      if (this.range) {
        pen.fillStyle = "#8884";
        pen.fillRect(this.x(this.range[0]), TOP, this.x(this.range[1]) - this.x(this.range[0]), this.high);
      }
      if (!this.chosen) return;
      const outline = (event) => {
        const row = this.rows.find((one) => one.lane === event.lane);
        if (!row) return null;
        const x = this.x(event.lane.start[event.i]), width = Math.max(2, this.x(event.lane.start[event.i] + event.lane.length[event.i]) - x);
        pen.strokeStyle = ink; pen.lineWidth = 2; pen.strokeRect(x, row.y, width, ROW); pen.lineWidth = 1;
        return {x, y: row.y};
      };
      const here = outline(this.chosen);
      for (const other of this.linked(this.chosen).slice(0, 200)) {
        const there = outline(other);
        if (!here || !there) continue;
        pen.beginPath(); pen.moveTo(here.x, here.y + ROW / 2);
        pen.bezierCurveTo(here.x, (here.y + there.y) / 2, there.x, (here.y + there.y) / 2, there.x, there.y + ROW / 2);
        pen.stroke();
      }
    }

    event(number) {
      const lane = this.data.lanes.find((one) => number >= one.base && number < one.base + one.n);
      return lane && {lane, i: number - lane.base};
    }

    /* What a launch was launched by; what a call, or an operator with the calls in it, launched. */
    linked({lane, i}) {
      if (lane.launches) return lane.link[i] ? [this.event(lane.link[i] - 1)] : [];
      if (lane.gpu) return [];
      const from = lane.start[i], to = from + lane.length[i], wanted = new Set([lane.base + i]);
      for (const other of this.data.lanes) {
        if (other.place !== lane.place || other.gpu || !["API calls", "operators"].includes(other.lane)) continue;
        for (let k = first(other.start, from); k < other.n && other.start[k] <= to; k++) if (other.start[k] + other.length[k] <= to) wanted.add(other.base + k);
      }
      const found = [];
      for (const other of this.data.lanes) if (other.launches) for (let k = 0; k < other.n; k++) if (other.link[k] && wanted.has(other.link[k] - 1)) found.push({lane: other, i: k});
      return found.sort((one, other) => one.lane.start[one.i] - other.lane.start[other.i]);
    }

    /* What encloses a time on a thread, from the outermost. */
    around(place, t) {
      const found = [];
      for (const lane of this.data.lanes) {
        if (lane.place !== place || lane.gpu) continue;
        for (let i = first(lane.start, t + 1) - 1, tried = 0; i >= 0 && tried < 50; i--, tried++)
          if (lane.start[i] + lane.length[i] >= t) { found.push({lane, i}); break; }
      }
      return found.sort((one, other) => other.lane.length[other.i] - one.lane.length[one.i]);
    }

    under(x, y) {
      const row = this.rows.find((one) => y >= one.y && y < one.y + one.high);
      if (!row?.lane || x < this.left) return row ?? null;
      const lane = row.lane, reach = 3 / this.wide * (this.to - this.from), t = this.at(x);
      let best = null;
      for (let i = first(this.ends(lane), t - reach); i < lane.n && lane.start[i] <= t + reach; i++) {
        const away = Math.max(lane.start[i] - t, t - lane.start[i] - lane.length[i], 0);
        if (!best || away < best.away) best = {lane, i, away};
        if (away === 0) break;
      }
      return best;
    }

    /* The name of an item; of one that stands for several, how many. */
    title({lane, i}) {
      const name = this.data.names[lane.name[i]];
      return lane.many?.[i] > 1 ? `${lane.many[i].toLocaleString("en")} events, the longest ${name}` : name;
    }

    hover(x, y) {
      const found = this.under(x, y);
      this.canvas.title = found?.lane && found.i !== undefined ? `${this.title(found)}, ${time(found.lane.length[found.i])}` : "";
    }

    click(x, y) {
      this.canvas.focus({preventScroll: true});
      const found = this.under(x, y);
      if (found?.head) { if (!this.closed.delete(found.key)) this.closed.add(found.key); this.arrange(); this.resize(); return; }
      if (found && found.i !== undefined) this.choose(found);
    }

    choose(event, bring = false) {
      this.chosen = {lane: event.lane, i: event.i};
      this.range = null;
      const key = this.key(event.lane);
      if (this.closed.delete(key)) { this.arrange(); this.resize(); }
      const start = event.lane.start[event.i], length = event.lane.length[event.i];
      if (bring && (start + length < this.from || start > this.to)) { const half = (this.to - this.from) / 2; this.show(start + length / 2 - half, start + length / 2 + half); }
      if (bring) this.reveal(event.lane);
      this.tell();
      this.draw();
    }

    /* Scroll to a lane that is not in view. */
    reveal(lane) {
      const row = this.rows.find((one) => one.lane === lane), {scrollTop: top, clientHeight: high} = this.scroll;
      if (row && (row.y < top || row.y + row.high > top + high)) this.scroll.scrollTop = row.y - high / 2;
    }

    /* The event of the lane above or below that begins at the same time or next; the first that is in view where none is chosen. */
    beside(by) {
      const lanes = this.rows.filter((row) => row.lane?.n).map((row) => row.lane);
      const at = lanes.indexOf(this.chosen?.lane), lane = lanes[at < 0 && by < 0 ? lanes.length - 1 : at + by];
      if (!lane) return;
      const t = this.chosen ? this.chosen.lane.start[this.chosen.i] : Math.max(0, this.from);
      this.choose({lane, i: Math.min(first(lane.start, t), lane.n - 1)}, true);
    }

    /* Close the lane of the event that is chosen; without one open what is closed, or close all but the GPU's. */
    fold() {
      const lanes = this.chosen ? [this.chosen.lane] : this.data.lanes.filter((lane) => !lane.gpu), open = !this.chosen && this.closed.size;
      this.chosen = null; this.help();
      if (open) this.closed.clear(); else for (const lane of lanes) this.closed.add(this.key(lane));
      this.arrange(); this.resize();
    }

    fit() { if (this.chosen) { const {lane, i} = this.chosen, pad = Math.max(50, lane.length[i]); this.show(lane.start[i] - pad, lane.start[i] + lane.length[i] + pad); } }
    step(by) { if (this.chosen) { const i = this.chosen.i + by; if (i >= 0 && i < this.chosen.lane.n) this.choose({lane: this.chosen.lane, i}, true); } }
    follow() { const [other] = this.chosen ? this.linked(this.chosen) : []; if (other) this.choose(other, true); }
    gap(place) {
      this.gap_at = Math.min(place, this.gaps.length - 1);
      const found = this.gaps[this.gap_at];
      if (found) { this.choose({lane: found[1], i: found[2]}); this.fit(); }
    }

    find(text) {
      const wanted = text.trim().toLowerCase();
      this.matches = wanted ? new Set(this.data.names.flatMap((name, i) => name.toLowerCase().includes(wanted) ? [i] : [])) : null;
      let n = 0;
      this.hits = [];
      if (this.matches?.size) for (const lane of this.data.lanes) for (let i = 0; i < lane.n; i++) if (this.matches.has(lane.name[i])) { n++; if (this.hits.length < 100000) this.hits.push([lane.start[i], lane, i]); }
      this.hits.sort((one, other) => one[0] - other[0]);
      this.hit = -1;
      this.said.textContent = wanted ? `${n.toLocaleString("en")} events` : "";
      this.draw();
    }

    next(by) {
      if (!this.hits?.length) return;
      this.hit = (this.hit + by + this.hits.length) % this.hits.length;
      this.choose({lane: this.hits[this.hit][1], i: this.hits[this.hit][2]}, true);
    }

    tell() {
      const {lane, i} = this.chosen, names = this.data.names, table = element("table"), start = lane.start[i];
      const add = (label, value, event) => {
        const line = element("tr"), cell = element("td");
        if (event) { const link = element("button", value, {type: "button", class: "tl-link"}); link.addEventListener("click", () => this.choose(event, true)); cell.append(link); }
        else cell.textContent = value;
        line.append(element("th", label), cell);
        table.append(line);
        return cell;
      };
      add(lane.lane === "idle" ? "idle" : "name", this.title(this.chosen));
      if (lane.many?.[i] > 1) add("busy", `${time(lane.busy[i])}, ${(100 * lane.busy[i] / Math.max(1, lane.length[i])).toFixed(0)} %; ${this.data.live ? "zoom in to see each" : "only their sum is in this file"}`);
      add("where", `${lane.lane} · ${lane.place}`);
      add("start, duration", `${time(start)}, ${time(lane.length[i])}`);
      if (this.data.categories[lane.name[i]] && lane.launches) add("category", this.data.categories[lane.name[i]]);
      const linked = this.linked(this.chosen);
      let host = lane.gpu ? linked[0] : null;
      if (lane.lane === "idle") host = this.after(lane, start + lane.length[i]);
      if (lane.gpu && host) {
        const before = start - host.lane.start[host.i], name = this.title(host);
        if (lane.lane === "idle") add("next launch", `${name}, begun ${time(Math.abs(before))} ${before < 0 ? "after" : "before"} the GPU ran dry`, host);
        else add("launched by", `${name}, ${time(before)} before`, host);
      } else if (lane.launches && lane.key?.[i]) add("launched by", `a call ${time(start - lane.key[i] + 1)} before; f goes there`);
      const inside = host ? this.around(host.lane.place, host.lane.start[host.i]) : lane.gpu ? [] : this.around(lane.place, start).filter((one) => one.lane !== lane);
      for (const one of inside.filter((one) => !host || one.lane !== host.lane)) add(`in ${{annotations: "annotation", operators: "operator"}[one.lane.lane] ?? one.lane.lane}`, `${names[one.lane.name[one.i]]}, ${time(one.lane.length[one.i])}`, one);
      if (lane.lane === "idle" && host) for (const one of this.around(host.lane.place, start + lane.length[i] / 2)) add("host meanwhile", `${one.lane.lane}: ${names[one.lane.name[one.i]]}, ${time(one.lane.length[one.i])}`, one);
      if (!lane.gpu && lane.lane !== "critical path") this.tell_launched(add, linked);
      this.told.replaceChildren(table);
    }

    tell_launched(add, linked) {
      const names = this.data.names;
      add("launched", linked.length ? `${linked.length.toLocaleString("en")} activities, ${time(linked.reduce((sum, one) => sum + one.lane.length[one.i], 0))}` : "nothing");
      for (const one of linked.slice(0, 8)) add("", names[one.lane.name[one.i]], one);
    }

    /* The call that launched what ran first at or after `t` on the GPU of a lane. */
    after(lane, t) {
      let best = null;
      for (const other of this.data.lanes) if (other.launches && other.place === lane.place) { const i = first(other.start, t); if (i < other.n && (!best || other.start[i] < best.lane.start[best.i])) best = {lane: other, i}; }
      return best && this.linked(best)[0];
    }

    tell_range() {
      const [from, to] = this.range, sums = new Map(), busy = new Map(), names = this.data.names;
      for (const lane of this.data.lanes) {
        let sum = 0;
        for (let i = first(this.ends(lane), from); i < lane.n && lane.start[i] < to; i++) {
          const share = Math.min(to, lane.start[i] + lane.length[i]) - Math.max(from, lane.start[i]);
          if (share < 0) continue;
          sum += lane.many?.[i] > 1 ? lane.busy[i] * share / Math.max(1, lane.length[i]) : share;
          const many = lane.many?.[i] > 1, took = many ? lane.busy[i] * share / Math.max(1, lane.length[i]) : share;
          const key = `${lane.lane === "idle" ? "idle" : lane.launches ? "GPU" : lane.lane}\n${many ? "shorter ones, summed" : names[lane.name[i]]}`, held = sums.get(key) ?? [0, 0];
          held[0] += took; held[1] += lane.many?.[i] ?? 1; sums.set(key, held);
        }
        if (lane.launches || lane.lane === "idle") busy.set(this.key(lane), (busy.get(this.key(lane)) ?? 0) + sum);
      }
      this.tell_sums([...[...busy].map(([key, sum]) => [key.split("\n")[1], key.split("\n")[0], "", sum]),
        ...[...sums].sort((one, other) => other[1][0] - one[1][0]).filter(([key]) => /^(GPU|idle|operators|API calls)\n/.test(key)).slice(0, 40).map(([key, [sum, n]]) => [...key.split("\n"), n.toLocaleString("en"), sum])]);
    }

    tell_sums(rows) {
      const [from, to] = this.range, table = element("table"), head = element("tr");
      for (const title of ["", "name", "n", "time in the range", "%"]) head.append(element("th", title));
      table.append(head);
      for (const [kind, name, n, sum] of rows) { const line = element("tr"); for (const cell of [kind, name, n, time(Math.round(sum)), (100 * sum / (to - from)).toFixed(1)]) line.append(element("td", cell)); table.append(line); }
      this.told.replaceChildren(element("p", `${time(Math.round(to - from))} from ${time(Math.round(from))}`), table);
    }

    help() {
      const said = element("p", KEYS.map((pair) => pair.join(": ")).join(" · "), {class: "dim"});
      this.told.replaceChildren(...(this.data.note ? [element("p", this.data.note)] : []), said);
    }
  }

  return {View};
})();
