/* The picture of a timeline on a canvas: packed events (kerneldb/report/events.py) in rows, drawn at most once per pixel. Items of rows that are `summed` may
   stand for several events, `many`, which took `busy` together. What is chosen, and by which keys, is in timeline.js. */
"use strict";
const Drawing = (() => {
  const {first, amount, several} = Packed;
  const TOP = 22, GAP = 8, HEAD = 18, ROW = 15, COUNTER = 42, OTHER = "#bbbbbb";
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
  /* Of parts of the critical path, and of what has no category: operators, calls, annotations. Only neighbours are told apart, so that strong colours
     mean categories of launches. */
  const PALE = ["#8fb3cf", "#d4bd84", "#93c2a3", "#c79fbb", "#8cc5c9", "#d0a78b", "#a1a6d3", "#b9c47e"];
  const IDLE = {launching: "#ee6677", synchronisation: "#ccbb44", allocation: "#aa3377", "blocking copy": "#4477aa", "data loading": "#66ccee",
    "launch latency": "#d9f0a3", "between launches": "#d9f0a3", dependency: "#465a14"};

  /* Black or white, whichever can be read on a colour. */
  function on(colour) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return colour.length < 7 ? "#888" : 0.3 * red + 0.59 * green + 0.11 * blue > 125 ? "#000" : "#fff";
  }

  function cut(text, size) { return text.length > size ? `${text.slice(0, Math.max(1, size - 1))}…` : text; }

  /* The title of the rows of a lane. */
  function titled({lane, place}) { return lane === place ? lane : `${lane} · ${place}`; }

  /* Text with its middle left out where it is wider than there is room: of lanes of several traces the ends tell them apart. */
  function shortened(pen, text, room) {
    const shape = (kept) => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    if (pen.measureText(text).width <= room) return text;
    let kept = text.length - 1;
    while (kept > 2 && pen.measureText(shape(kept)).width > room) kept--;
    return shape(kept);
  }

  class Picture {
    constructor(box, data) {
      this.box = box;
      this.data = data;
      this.closed = new Set(data.lanes.filter((lane) => lane.lane === "Python").map((lane) => this.key(lane)));
      this.pinned = new Set();
      this.end = Math.max(1, data.end);
      this.from = 0; this.to = this.end;
      this.chosen = this.range = this.matches = null;
      this.paints();
    }

    /* The launches of other ranks that are the same collective. */
    partners() { return []; }

    /* The categories that take most time in the whole trace have colours of their own, in a file as in a page that asks for what it shows; all others share one. */
    paints() {
      this.seen ??= new Map();
      if (!this.known) {
        const coloured = (categories, hues) => categories.slice(0, hues.length).map((category, i) => [category, hues[i]]);
        const launched = coloured(this.data.ranked, COLOURS);
        this.shown = launched.length;
        this.known = new Map([...coloured(this.times((lane) => lane.lane === "critical path"), PALE), ...launched]);
      }
      this.colours = this.data.names.map((name, i) => this.colour(this.data.categories[i], name));
    }

    key(lane) { return `${lane.place}\n${lane.lane}`; }

    colour(category, name) {
      if (category?.startsWith("idle: ")) return IDLE[category.slice(6)] ?? "#777777";
      if (category) return this.known.get(category) ?? OTHER;
      const shown = name.split(/[(<\[ ]/)[0];
      if (!this.seen.has(shown)) this.seen.set(shown, PALE[this.seen.size % PALE.length]);
      return this.seen.get(shown);
    }

    /* Categories of launches, parts of the critical path, or causes of idle times, with the time of each, most first. */
    times(wanted) {
      const sums = new Map();
      for (const lane of this.data.lanes) {
        if (!wanted(lane)) continue;
        for (let i = 0; i < lane.n; i++) {
          const category = this.data.categories[lane.name[i]];
          if (category) sums.set(category, (sums.get(category) ?? 0) + (lane.busy?.[i] || lane.length[i]));
        }
      }
      return [...sums].sort((one, other) => other[1] - one[1]).map(([category]) => category);
    }

    /* How many events an item stands for, as words. */
    many({lane, many}, i) { return several(many?.[i] ?? 1, lane === "idle" ? "idle time" : "event"); }

    /* Whether a lane or counter is shown: all words of one of the alternatives that are asked for are in its title. */
    wanted(title) {
      const asked = this.lanes_asked ?? [], shown = title.toLowerCase();
      return !asked.length || asked.some((words) => words.every((word) => shown.includes(word)));
    }

    /* The lanes that are shown: those that are pinned come first, in the order in which they were. */
    arranged() {
      const pinned = new Map([...this.pinned].map((key, i) => [key, i])), place = (lane) => pinned.get(this.key(lane)) ?? pinned.size;
      const lanes = this.data.lanes.filter((lane) => this.wanted(titled(lane)));
      return pinned.size ? lanes.sort((one, other) => place(one) - place(other)) : lanes;
    }

    arrange() {
      this.rows = [];
      let y = TOP, last = null;
      for (const lane of this.arranged()) {
        const key = this.key(lane);
        if (key !== last) { y += GAP; this.rows.push({head: lane, key, y, high: HEAD}); y += HEAD; last = key; }
        if (this.closed.has(key)) continue;
        this.rows.push({lane, y, high: ROW});
        y += ROW;
      }
      for (const counter of this.data.counters.filter((one) => this.wanted(one.name))) {
        counter.most ??= counter.values.reduce((one, other) => Math.max(one, other), 0) || 1;
        this.rows.push({counter, y: y + GAP, high: COUNTER});
        y += COUNTER + GAP;
      }
      this.high = y + GAP;
    }

    resize() {
      const ratio = window.devicePixelRatio || 1, width = Math.max(320, this.scroll.clientWidth);
      this.left = width < 700 ? 4 : width < 1500 ? 190 : 270;  // whole titles of threads, where there is room
      this.wide = width - this.left;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${this.high}px`;
      this.canvas.width = width * ratio;
      this.canvas.height = Math.min(this.high * ratio, 16000);
      this.ratio = this.canvas.height / this.high;
      this.draw();
    }

    /* How much of the drawing is scrolled away above: the ruler is drawn below that. */
    over() {
      const {top} = this.scroll.getBoundingClientRect();
      return Math.max(0, Math.min(this.scroll.scrollTop + Math.max(0, -top), this.high - 2 * TOP));
    }

    /* A time as it is told: from the first launch on, as everywhere else; with digits for times `step` apart. */
    clock(t, step) { return Packed.clock(Math.round(t - this.data.zero), step); }
    /* How much time a pixel is: what is pointed at is not known better. */
    pixel() { return (this.to - this.from) / this.wide; }
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
      this.grid(line);
      for (const row of this.rows) {
        if (row.head) this.head(row, ink, line, dim, paper);
        else if (row.counter) this.counter(row, dim, line);
        else this.row(row, ink);
      }
      this.marks(ink);
      this.ruler(paper, dim, line);
    }

    /* How far the times of the ruler are apart: 1, 2 or 5 of a power of ten. */
    apart() {
      const span = this.to - this.from, power = 10 ** Math.floor(Math.log10(span / 6));
      return power * ([1, 2, 5, 10].find((by) => by * power >= span / 8) ?? 10);
    }

    ticks(step = this.apart()) {
      const zero = this.data.zero, found = [];
      for (let t = zero + Math.ceil((this.from - zero) / step) * step; t <= this.to; t += step) found.push(t);
      return found;
    }

    /* The times of the ruler that have labels: fewer where labels, which tell them apart, need more room. */
    labels() {
      const labelled = (step) => this.ticks(step).map((t) => [this.x(t), this.clock(t, step)]);
      const fits = (found) => found.every(([x, text], i) => i + 1 === found.length || x + this.pen.measureText(text).width + 8 <= found[i + 1][0]);
      return [1, 2, 5, 10].map((by) => labelled(by * this.apart())).find(fits) ?? [];
    }

    grid(line) {
      this.pen.fillStyle = line;
      for (const t of this.ticks()) this.pen.fillRect(this.x(t), TOP - 6, 1, this.high);
    }

    /* Times at the upper edge of what is seen of the drawing, over its rows; with the range that is chosen. */
    ruler(paper, dim, line) {
      const pen = this.pen, top = this.over(), wide = this.wide + this.left;
      pen.fillStyle = paper; pen.fillRect(0, top, wide, TOP);
      if (this.range) { const [from, to] = this.range.map((t) => this.x(t)); pen.fillStyle = "#8884"; pen.fillRect(from, top, to - from, TOP); }
      pen.fillStyle = line;
      if (top) pen.fillRect(0, top + TOP - 1, wide, 1);
      for (const t of this.ticks()) pen.fillRect(this.x(t), top + TOP - 6, 1, 6);
      pen.fillStyle = dim;
      let free = 0;  // the last label is moved to where there is room
      for (const [x, text] of this.labels()) {
        const width = pen.measureText(text).width, at = Math.min(x + 3, wide - width - 2);
        if (at >= free) pen.fillText(text, at, top + TOP / 2);
        free = at + width + 5;
      }
    }

    head(row, ink, line, dim, paper) {
      const pen = this.pen;
      pen.fillStyle = line; pen.fillRect(0, row.y, this.wide + this.left, 1);
      const closed = this.closed.has(row.key), title = shortened(pen, `${closed ? "▸" : "▾"} ${this.pinned.has(row.key) ? "★ " : ""}${titled(row.head)}`, this.wide + this.left - 10);
      // Nothing else is drawn at its height: a long title is whole, over the lines of the grid.
      const end = 4 + pen.measureText(title).width + 6;
      if (end > this.left) { pen.fillStyle = paper; pen.fillRect(this.left, row.y + 1, end - this.left, HEAD - 1); }
      pen.fillStyle = ink;
      pen.fillText(title, 4, row.y + HEAD / 2 + 1);
      if (!closed || this.left < 100) return;
      const held = this.data.lanes.filter((lane) => this.key(lane) === row.key).reduce((sum, lane) => sum + lane.n, 0);
      pen.fillStyle = dim;
      pen.fillText(`closed: ${several(held, "event")}, a click opens it`, Math.max(this.left + 4, end + 6), row.y + HEAD / 2 + 1);
    }

    /* The lines of a text that is as wide as there is room; two at most. */
    lines(text, room) {
      const words = text.split(" "), wide = (from, to) => this.pen.measureText(words.slice(from, to).join(" ")).width;
      let first = words.length;
      while (first > 1 && wide(0, first) > room) first--;
      return [words.slice(0, first), words.slice(first)].filter((one) => one.length).map((one) => shortened(this.pen, one.join(" "), room));
    }

    counter(row, dim, line) {
      const {ts, values, name, unit, most} = row.counter, pen = this.pen, bottom = row.y + row.high;
      pen.fillStyle = dim;
      const told = [...this.lines(name, (this.left > 100 ? this.left : this.wide) - 10), `to ${amount(most, unit)}`];
      told.forEach((one, i) => pen.fillText(one, 4, row.y + 8 + i * 13));
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

    /* Events that are narrower than a pixel are drawn as one: the next that is drawn is the first that ends beyond it, which may begin in it. */
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
          if (width > 70) { pen.fillStyle = ink; last = -1; pen.fillText(this.many(row.lane, i), x + 3, y + high / 2 + 0.5); }
        } else if (width > 28) {
          pen.fillStyle = on(colour); last = -1;
          pen.fillText(cut(names[name[i]], Math.floor((width - 6) / 5.6)), x + 3, y + high / 2 + 0.5, width - 5);
        }
        i = width < 1 ? first(ends, this.from + (x + width - this.left) / scale, i + 1) : i + 1;
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

    /* What is chosen, over the rows: not over their titles. */
    marks(ink) {
      const pen = this.pen;
      pen.save();
      pen.beginPath(); pen.rect(this.left - 1, TOP, this.wide + 1, this.high); pen.clip();
      this.marked(ink);
      pen.restore();
    }

    marked(ink) {
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
      pen.setLineDash([4, 3]);
      for (const other of this.partners(this.chosen)) {
        const there = outline(other);
        if (there && here) { pen.beginPath(); pen.moveTo(here.x, here.y + ROW / 2); pen.lineTo(there.x, there.y + ROW / 2); pen.stroke(); }
      }
      pen.setLineDash([]);
      for (const other of this.linked(this.chosen).slice(0, 200)) {
        const there = outline(other);
        if (!here || !there) continue;
        pen.beginPath(); pen.moveTo(here.x, here.y + ROW / 2);
        pen.bezierCurveTo(here.x, (here.y + there.y) / 2, there.x, (here.y + there.y) / 2, there.x, there.y + ROW / 2);
        pen.stroke();
      }
    }
  }

  return {Picture, OTHER, TOP, titled};
})();
