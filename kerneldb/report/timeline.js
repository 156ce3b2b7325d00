/* A timeline that answers keys, the mouse and searches: what is chosen, what is linked with it, and what is said about it. */
"use strict";
const Timeline = (() => {
  const {first, time, amount, several, element} = Packed, {TOP} = Drawing, GAPS = 1000, LEAST = 60, ROOM = 200;
  const KEYS = [["drag, a d, ← →", "move"], ["wheel, w s, + −", "zoom"], ["shift + drag, r", "choose a range, what is shown"], ["0", "whole trace"], ["g, shift + g", "largest gap, next gap"],
    ["[ ]", "event before, after"], ["↑ ↓", "lane above, below"], ["o", "close the lane, open all"], ["p, shift + click on its title", "pin the lane at the top, and back"], ["f", "from a kernel or gap to the call, and back"], ["x", "collective: the next rank"], ["Enter", "zoom to the event"], ["/", "search: Enter goes on, Esc leaves the box, then n and shift + n"], ["Esc", "choose nothing, then end the search"]];

  /* Frames that are not of the program: PyTorch, Triton and Python's library, as in docs/why.md. */
  const LIBRARY = /(^|\/)(torch|triton)\/|^<|lib\/python[\d.]+\/(?!site-|dist-)|^(nn\.Module|threading|contextlib|functools|runpy)\b/;

  /* Whether a Python frame is one of the program. */
  function own(name) { return !LIBRARY.test(name); }

  /* What an event is in, as a word. */
  function within(lane) { return `in ${{annotations: "annotation", operators: "operator"}[lane.lane] ?? lane.lane}`; }

  /* Whether what begins at `start` is open at `t`: what ends then is not, unless it begins then, too. */
  function holds(start, length, t) { return start <= t && (start + length > t || start === t); }

  /* Keys go to the timeline in view wherever the focus is, but where something is typed or chosen; arrows scroll the page, as long as the drawing is not clicked. */
  const views = [], TYPED = "input, textarea, select, [contenteditable]", OF_BUTTONS = ["Enter", " "];
  document.addEventListener("keydown", (event) => {
    const at = document.activeElement, button = at?.closest("button, a, summary, iframe");
    if (event.defaultPrevented || event.key.startsWith("Arrow") || at?.closest(TYPED) || (button && OF_BUTTONS.includes(event.key))) return;
    const [view] = views.filter((one) => one.visible() > LEAST).sort((one, other) => other.visible() - one.visible());
    view?.press(event);
  });

  class View extends Drawing.Picture {
    constructor(box, data) {
      super(box, data);
      views.push(this);
      this.hits = new Hits(this);
      this.gaps = this.largest();
      this.build();
      this.arrange();
      this.resize();
      this.address = new Address(this);
    }

    draw() {
      super.draw();
      this.address?.later();
    }

    /* Resolves when what is shown is there. */
    async rested() {}

    /* The longest idle times, as [length, lane, item]. Numbers alone are sorted: there may be as many as launches. */
    largest() {
      const lanes = this.data.lanes.filter((lane) => lane.lane === "idle"), all = new Float64Array(lanes.reduce((sum, lane) => sum + lane.n, 0)), found = [];
      lanes.reduce((at, lane) => { all.set(lane.length.map((one, i) => lane.many?.[i] > 1 ? 0 : one), at); return at + lane.n; }, 0);
      const least = all.length > GAPS ? all.sort()[all.length - GAPS] : 0;
      for (const lane of lanes) for (let i = 0; i < lane.n; i++) if (lane.length[i] >= least && !(lane.many?.[i] > 1)) found.push([lane.length[i], lane, i]);
      return found.sort((one, other) => other[0] - one[0]).slice(0, GAPS);
    }

    build() {
      const bar = element("div", undefined, {class: "tl-bar"});
      this.search = element("input", undefined, {type: "search", placeholder: "Search names", "aria-label": "Search names of events"});
      this.said = element("span", "", {class: "dim", role: "status"});
      this.sought = element("input", undefined, {type: "search", placeholder: "Lanes: stream 7, idle", "aria-label": "Show only lanes with these words in their titles; a comma parts alternatives"});
      bar.append(this.search, this.sought);
      for (const [text, title, act] of [["−", "Zoom out", () => this.zoom(2)], ["+", "Zoom in", () => this.zoom(0.5)], ["whole", "Whole trace (0)", () => this.show(0, this.end)],
        ["largest gap", "Largest idle gap (g)", () => this.gap(0)], ["gaps", "List of the largest idle gaps", () => this.list_gaps()], ["?", "Keys", () => this.help()]]) {
        const button = element("button", text, {type: "button", title});
        button.addEventListener("click", act);
        bar.append(button);
      }
      this.colours_told = element("span", undefined, {class: "tl-legend"});
      bar.append(this.said, this.colours_told);
      this.legend();
      this.scroll = element("div", undefined, {class: "tl-scroll"});
      this.canvas = element("canvas", undefined, {tabindex: "0", role: "application", "aria-label": this.words()});
      this.scroll.append(this.canvas);
      this.told = element("div", undefined, {class: "tl-told", "aria-live": "polite"});
      this.box.replaceChildren(bar, this.hits.box, this.scroll, this.told);
      this.pen = this.canvas.getContext("2d");
      this.listen();
      this.help();
    }

    words() {
      const n = this.data.events;
      const places = [...new Set(this.data.lanes.map((lane) => lane.place))];
      return `Timeline of ${time(this.end)}: ${n.toLocaleString("en")} events of ${places.join("; ")}. Keys: ${KEYS.map((pair) => pair.join(": ")).join("; ")}.`;
    }

    /* What the colours of launches, of the critical path and of idle times are, most time first. */
    legend() {
      const launches = this.data.ranked, others = launches.length - this.shown;
      const shown = launches.slice(0, this.shown).map((category) => [category, this.colour(category)]);
      if (others) shown.push([others === 1 ? "1 other category" : `${others} other categories`, Drawing.OTHER]);
      for (const part of this.times((lane) => lane.lane === "critical path")) shown.push([`critical path: ${part}`, this.colour(part)]);
      const idle = new Map();
      for (const cause of this.times((lane) => lane.lane === "idle").slice(0, 6)) idle.set(this.colour(cause), [...(idle.get(this.colour(cause)) ?? []), cause.slice(6)]);
      for (const [colour, causes] of idle) shown.push([`idle: ${causes.join(", ")}`, colour]);
      this.colours_told.replaceChildren(...shown.map(([text, colour]) => {
        const one = element("span", text), dot = element("i");
        dot.style.background = colour;
        one.prepend(dot);
        return one;
      }));
    }

    /* How much of the drawing is in the window, in pixels. */
    visible() {
      const {top, bottom} = this.canvas.isConnected ? this.scroll.getBoundingClientRect() : {top: 0, bottom: 0};
      return Math.min(bottom, window.innerHeight) - Math.max(top, 0);
    }

    /* The same above what is told, which stays in the window. */
    room() { return Math.min(this.visible(), this.told.getBoundingClientRect().top - Math.max(this.scroll.getBoundingClientRect().top, 0)); }

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
        pressed = {x: event.offsetX, y: event.offsetY, from: this.from, to: this.to, moved: false, choose: event.shiftKey || event.offsetY < this.over() + TOP};
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointerenter", () => { if (document.activeElement === document.body) canvas.focus({preventScroll: true}); });
      canvas.addEventListener("pointermove", (event) => {
        if (!pressed) { this.hover(event.offsetX, event.offsetY); return; }
        const by = event.offsetX - pressed.x;
        pressed.moved ||= Math.abs(by) > 3;
        if (!pressed.moved) return;
        if (pressed.choose) { this.chosen = null; this.range = [this.at(pressed.x), this.at(event.offsetX)].sort((one, other) => one - other); }
        else { const shift = -by / this.wide * (pressed.to - pressed.from); this.from = pressed.from + shift; this.to = pressed.to + shift; this.clamp(); }
        this.draw();
      });
      canvas.addEventListener("pointerup", (event) => {
        const was = pressed;
        pressed = null;
        if (!was) return;
        if (was.moved && was.choose) this.tell_range();
        else if (!was.moved) this.click(event.offsetX, event.offsetY, event.shiftKey);
      });
      canvas.addEventListener("keydown", (event) => this.press(event));
      for (const scrolled of [this.scroll, window]) scrolled.addEventListener("scroll", () => this.draw(), {passive: true});
      this.search.addEventListener("input", () => this.find(this.search.value));
      this.sought.addEventListener("input", () => this.seek(this.sought.value));
      this.sought.addEventListener("keydown", (event) => { if (["Enter", "Escape"].includes(event.key)) { event.preventDefault(); this.canvas.focus({preventScroll: true}); } });
      this.search.addEventListener("keydown", (event) => this.searching(event));
      new ResizeObserver(() => requestAnimationFrame(() => { if (this.scroll.clientWidth !== this.wide + this.left) this.resize(); })).observe(this.scroll);
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      for (const [what, is_paper] of [["beforeprint", true], ["afterprint", false]]) window.addEventListener(what, () => { this.box.classList.toggle("paper", is_paper); this.paint(); });
    }

    /* Keys in the box for a search. */
    searching(event) {
      const by = {Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1}[event.key];
      if (by) this.next(by);
      else if (event.key === "Escape") this.canvas.focus({preventScroll: true});
      else return;
      event.preventDefault();
    }

    press(event) {
      const act = {
        ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), a: () => this.move(-0.2), d: () => this.move(0.2),
        "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1.7), w: () => this.zoom(0.6), s: () => this.zoom(1.7),
        0: () => this.show(0, this.end), g: () => this.gap(0), G: () => this.gap((this.gap_at ?? -1) + 1), "[": () => this.step(-1), "]": () => this.step(1), ",": () => this.step(-1), ".": () => this.step(1), c: () => this.follow(),
        f: () => this.follow(), x: () => this.across(), Enter: () => this.fit(), "/": () => this.search.focus(), n: () => this.next(1), N: () => this.next(-1),
        Escape: () => this.leave(), "?": () => this.help(),
        ArrowUp: () => this.beside(-1), ArrowDown: () => this.beside(1), o: () => this.fold(), p: () => this.pin(this.chosen?.lane), r: () => this.sum(this.from, this.to),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    }

    /* Choose a range, and sum up what is in it. */
    sum(from, to) { this.chosen = null; this.range = [from, to]; this.tell_range(); this.draw(); }

    /* Choose nothing; where nothing is chosen, close the list and end the search. */
    leave() {
      if (!this.chosen && !this.range) { this.search.value = ""; this.find(""); }
      this.chosen = this.range = null;
      this.hits.mark();
      this.help();
      this.draw();
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

    /* What is known of the collectives of what is shown. */
    ranks() {
      if (this.exchanged?.data !== this.data) this.exchanged = new Ranks(this.data);
      return this.exchanged;
    }

    partners(event) { return this.ranks().partners(event); }

    /* To the same collective on the next rank. */
    across() {
      const other = this.chosen && this.ranks().next(this.chosen);
      if (other) this.choose(other, true);
    }

    /* What encloses a time on a thread, from the outermost: what ended then does not, but an operator that is known to be it, called `op`, does. */
    around(place, t, op) {
      const found = [];
      for (const lane of this.data.lanes) {
        if (lane.place !== place || lane.gpu) continue;
        for (let i = first(lane.start, t + 1) - 1, tried = 0; i >= 0 && tried < 50; i--, tried++)
          if (Timeline.holds(lane.start[i], lane.length[i], t) || (lane.start[i] + lane.length[i] === t && lane.lane === "operators" && this.data.names[lane.name[i]] === op)) { found.push({lane, i}); break; }
      }
      return found.sort((one, other) => other.lane.length[other.i] - one.lane.length[one.i]);
    }

    /* The item of a lane (its `key`) that begins and lasts so. */
    same({key, start, length}) {
      for (const lane of this.data.lanes) {
        if (this.key(lane) !== key) continue;
        for (let i = first(lane.start, start); i < lane.n && lane.start[i] === start; i++) if (lane.length[i] === length) return {lane, i};
      }
      return null;
    }

    under(x, y) {
      if (y < this.over() + TOP) return null;  // the ruler is over the rows
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
      return lane.many?.[i] > 1 ? `${this.many(lane, i)}${lane.lane === "idle" ? "" : `, the longest ${name}`}` : name;
    }

    hover(x, y) {
      const found = this.under(x, y);
      if (found?.counter) this.canvas.title = this.reading(found.counter, x);
      else if (found?.head) this.canvas.title = Drawing.titled(found.head);
      else this.canvas.title = found?.lane && found.i !== undefined ? `${this.title(found)}, ${time(found.lane.length[found.i])}` : "";
    }

    /* What a counter says at a place of the drawing. */
    reading({name, unit, ts, values}, x) {
      const t = this.at(x), i = first(ts, t + this.data.origin + 1) - 1;
      return `${name}: ${i < 0 ? "not known yet" : amount(values[i], unit)} at ${this.clock(t, this.pixel())}`;
    }

    click(x, y, pins = false) {
      this.canvas.focus({preventScroll: true});
      const found = this.under(x, y);
      if (found?.head && pins) { this.pin(found.head); return; }
      if (found?.head) { if (!this.closed.delete(found.key)) this.closed.add(found.key); this.arrange(); this.resize(); return; }
      if (found?.counter) this.say(false, element("p", this.reading(found.counter, x)));
      else if (found && found.i !== undefined) this.choose(found);
    }

    choose(event, bring = false) {
      this.chosen = {lane: event.lane, i: event.i};
      this.range = null;
      if (!this.data.live) this.said.textContent = this.hits.words();
      const key = this.key(event.lane);
      if (!this.wanted(Drawing.titled(event.lane))) this.seek("");
      if (this.closed.delete(key)) { this.arrange(); this.resize(); }
      const start = event.lane.start[event.i], length = event.lane.length[event.i];
      if (bring && (start + length < this.from || start > this.to)) { const half = (this.to - this.from) / 2; this.show(start + length / 2 - half, start + length / 2 + half); }
      this.hits.mark();
      this.tell();
      if (bring) this.reveal(event.lane);
      this.draw();
    }

    /* Scroll to a lane that is not in view, between the ruler and what is told; where there is no room for it in the window, to the timeline first. */
    reveal(lane) {
      const row = this.rows.find((one) => one.lane === lane);
      if (!row) return;
      if (this.room() < ROOM) this.box.scrollIntoView({block: "start"});
      const top = this.over(), high = Math.max(this.room(), LEAST);
      if (row.y < top + TOP || row.y + row.high > top + high) this.scroll.scrollTop += row.y - top - high / 2;
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

    /* Put a lane above the others, or back to its place. */
    pin(lane) {
      if (!lane) return;
      if (!this.pinned.delete(this.key(lane))) this.pinned.add(this.key(lane));
      this.arrange(); this.resize(); this.scroll.scrollTop = 0;
    }

    /* Show only lanes and counters whose titles have all of these words; a comma parts alternatives. */
    seek(text) {
      this.sought.value = text;
      this.lanes_asked = text.toLowerCase().split(",").map((one) => one.split(/\s+/).filter(Boolean)).filter((words) => words.length);
      this.arrange(); this.resize();
      const of = (lanes) => new Set(lanes.map((lane) => this.key(lane))).size, all = of(this.data.lanes);
      this.said.textContent = this.lanes_asked.length ? `${of(this.arranged())} of ${several(all, "lane")}` : this.hits.words();
    }

    fit() { if (this.chosen) { const {lane, i} = this.chosen, pad = Math.max(50, lane.length[i]); this.show(lane.start[i] - pad, lane.start[i] + lane.length[i] + pad); } }
    step(by) { if (this.chosen) { const i = this.chosen.i + by; if (i >= 0 && i < this.chosen.lane.n) this.choose({lane: this.chosen.lane, i}, true); } }
    follow() {
      const {lane, i} = this.chosen ?? {}, [other] = !lane ? [] : lane.lane === "idle" ? [this.after(lane, lane.start[i] + lane.length[i])] : this.linked(this.chosen);
      if (other) this.choose(other, true);
      else if (lane) this.said.textContent = lane.launches ? "its call was not recorded" : lane.lane === "idle" ? "the call of the launch after it was not recorded, or is not shown" : "it launched nothing";
    }

    /* The operator of the launch that ended a gap, and what its thread did: the line of the program or else what was innermost halfway, the line around the call, or the call that was waited for. */
    ended({lane, i}) {
      const host = this.after(lane, lane.start[i] + lane.length[i]), names = this.data.names, name = (one) => one && names[one.lane.name[one.i]];
      const waited = /: (.+?)(?:, then |$)/.exec(names[lane.name[i]])?.[1];
      if (!host) return {line: waited};
      const [[near], [meanwhile]] = [host.lane.start[host.i], lane.start[i] + lane.length[i] / 2].map((t) => this.innermost(this.around(host.lane.place, t)));
      const of = (found, kind) => found.find((one) => one.lane.lane === kind), call = meanwhile.find((one) => one.lane.lane !== "annotations");
      return {operator: name(host.lane.lane === "operators" ? host : of(near, "operators")), line: name(of(meanwhile, "Python") ?? call ?? of(near, "Python")) ?? waited};
    }

    /* The longest idle times as a list, at the times of the ruler. */
    list_gaps() {
      this.search.value = ""; this.matches = null;
      this.hits.list(this.largest().map(([, lane, i]) => ({lane, i})), "idle time");
      this.said.textContent = this.hits.words();
      this.draw();
    }

    gap(place) {
      this.gap_at = Math.min(place, this.gaps.length - 1);
      const found = this.gaps[this.gap_at];
      if (found) { this.choose({lane: found[1], i: found[2]}, true); this.fit(); }
    }

    find(text) {
      const wanted = text.trim().toLowerCase();
      this.matches = wanted ? new Set(this.data.names.flatMap((name, i) => name.toLowerCase().includes(wanted) ? [i] : [])) : null;
      this.hits.find(this.matches);
      this.said.textContent = this.hits.words();
      this.draw();
    }

    next(by) {
      const hit = this.hits.next(by);
      if (hit) this.choose(hit, true);
    }

    tell() {
      const {lane, i} = this.chosen, names = this.data.names, table = element("table"), start = lane.start[i];
      const add = (label, value, event) => {
        const line = element("tr"), cell = element("td");
        if (event) { const link = element("button", value, {type: "button", class: "tl-link"}); link.addEventListener("click", typeof event === "function" ? event : () => this.choose(event, true)); cell.append(link); }
        else cell.textContent = value;
        line.append(element("th", label), cell);
        table.append(line);
        return cell;
      };
      add(lane.lane === "idle" ? "idle" : "name", this.title(this.chosen));
      if (lane.many?.[i] > 1) add(lane.lane === "idle" ? "together" : "busy", `${time(lane.busy[i])}, ${(100 * lane.busy[i] / Math.max(1, lane.length[i])).toFixed(0)} %; ${this.data.live ? "zoom in to see each" : "only their sum is in this file"}`);
      add("where", `${lane.lane} · ${lane.place}`);
      add("start, duration", `${this.clock(start)}, ${time(lane.length[i])}`);
      if (this.data.categories[lane.name[i]] && lane.launches) add("category", this.data.categories[lane.name[i]]);
      if (lane.launches && !(lane.many?.[i] > 1)) { this.ranks().tell(add, this.chosen); this.tell_facts(add); }
      const linked = this.linked(this.chosen);
      const among = linked[0]?.lane.many?.[linked[0].i] > 1;
      let host = lane.gpu && !(among && lane.key?.[i]) ? linked[0] : null;
      if (lane.lane === "idle") host = this.after(lane, start + lane.length[i]);
      if (lane.gpu && host) {
        const before = start - host.lane.start[host.i], name = this.title(host);
        if (lane.lane === "idle") add("next launch", `${name}, begun ${time(Math.abs(before))} ${before < 0 ? "after" : "before"} the GPU ran dry`, host);
        else add("launched by", among ? `one of ${name}` : `${name}, ${time(before)} before`, host);
      } else if (lane.launches && lane.key?.[i]) this.tell_caller(add);
      else if (lane.launches) add("launched by", "a call that was not recorded");
      const op = this.data.facts?.[this.data.signatures[lane.name[i]]]?.op;
      const inside = host ? this.around(host.lane.place, host.lane.start[host.i], op) : lane.gpu ? [] : this.around(lane.place, start).filter((one) => one.lane !== lane);
      const line = (one, label) => add(label, `${names[one.lane.name[one.i]]}, ${time(one.lane.length[one.i])}`, one);
      const [near, frames] = this.innermost(inside.filter((one) => !host || one.lane !== host.lane));
      for (const one of near) line(one, within(one.lane));
      if (lane.lane === "idle" && host) this.tell_meanwhile(add, line, host, inside);
      for (const one of frames) line(one, within(one.lane));
      if (!lane.gpu && lane.lane !== "critical path") this.tell_launched(add, linked);
      this.say(false, table);
    }

    /* What is stored of the launch that is chosen. */
    tell_facts(add) {
      const {lane, i} = this.chosen, facts = this.data.facts?.[this.data.signatures[lane.name[i]]];
      if (facts) Facts.tell(add, facts, lane.length[i]);
    }

    /* The operators and annotations around a call, then the Python line of the program itself, and the other frames: each from the innermost. */
    innermost(around) {
      const inner = [...around].reverse(), python = inner.filter((one) => one.lane.lane === "Python");
      const line = python.find((one) => own(this.data.names[one.lane.name[one.i]]));
      return [[...inner.filter((one) => one.lane.lane !== "Python"), ...(line ? [line] : [])], python.filter((one) => one !== line)];
    }

    /* What the thread did in a gap until the call that ended it: for how long it was in no call, and what was open halfway that is not around that call: of operators the outermost first, which says most, of the rest the innermost. */
    tell_meanwhile(add, line, host, inside) {
      const {lane, i} = this.chosen, start = lane.start[i], until = host.lane.start[host.i], before = this.before(host);
      const told = new Set([host, ...inside].map((one) => one.lane.base + one.i));
      const halfway = this.around(host.lane.place, start + lane.length[i] / 2).filter((one) => !told.has(one.lane.base + one.i)), is_operator = (one) => one.lane.lane === "operators";
      const open = halfway.filter(is_operator), others = halfway.filter((one) => !is_operator(one)).reverse();
      const quiet = until - Math.max(start, before ? before.lane.start[before.i] + before.lane.length[before.i] : start);
      const last = before && !(before.lane.many?.[before.i] > 1) ? `, after ${this.title(before)}` : "";
      if (quiet > lane.length[i] / 10 && host.lane.lane === "API calls" && !(host.lane.many?.[host.i] > 1))
        add("host", `no API call for ${time(quiet)}${open.length ? "" : " (Python or other work on the host)"}${last}, before ${this.title(host)}`);
      for (const one of [...open, ...others]) line(one, "host meanwhile");
    }

    /* The call of the same thread that was the last to end of those begun before a call. */
    before(host) {
      const t = host.lane.start[host.i];
      let best = null;
      for (const lane of this.data.lanes) {
        if (lane.place !== host.lane.place || lane.lane !== "API calls") continue;
        const k = first(lane.start, t) - 1, ends = lane.start[k] + lane.length[k];
        if (k >= 0 && (!best || ends > best.lane.start[best.i] + best.lane.length[best.i])) best = {lane, i: k};
      }
      return best;
    }

    tell_launched(add, linked) {
      const names = this.data.names;
      add("launched", linked.length ? `${several(linked.length, "launch", "launches")}, ${time(linked.reduce((sum, one) => sum + one.lane.length[one.i], 0))}` : "nothing");
      for (const one of linked.slice(0, 8)) add("", names[one.lane.name[one.i]], one);
    }

    /* The call that launched what ran first at or after `t` on the GPU of a lane. */
    after(lane, t) {
      let best = null;
      for (const other of this.data.lanes) if (other.launches && other.place === lane.place) { const i = first(other.start, t); if (i < other.n && (!best || other.start[i] < best.lane.start[best.i])) best = {lane: other, i}; }
      return best && this.linked(best)[0];
    }

    tell_range() { this.tell_sums(Sums.rows(this, ...this.range)); }

    tell_sums(rows) {
      const [from, to] = this.range, table = element("table"), head = element("tr");
      for (const title of ["", "name", "n", "time in the range", "%"]) head.append(element("th", title));
      table.append(head);
      for (const [kind, name, n, sum] of rows) { const line = element("tr"); for (const cell of [kind, name, n, time(Math.round(sum)), (100 * sum / (to - from)).toFixed(1)]) line.append(element("td", cell)); table.append(line); }
      this.say(false, element("p", `${time(Math.round(to - from))} from ${this.clock(from, this.pixel())}; % is the share of this range. ${rows.some(([kind]) => kind === "outside") ? "For each GPU, busy, idle and outside of its launches add up to the range. " : ""}The times of a name are added up over all GPUs and threads; what runs inside of another counts for both.`), table);
    }

    /* Tell this below the drawing; what is no answer (`waits`) may be out of sight. */
    say(waits, ...parts) {
      this.told.classList.toggle("tl-waits", waits);
      this.told.replaceChildren(...parts);
    }

    help() {
      const said = element("p", KEYS.map((pair) => pair.join(": ")).join(" · "), {class: "dim"});
      this.say(true, ...(this.data.note ? [element("p", this.data.note)] : []), said);
    }
  }

  return {View, within, holds, own};
})();
