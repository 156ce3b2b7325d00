/* A timeline that asks `kerneldb serve` for what it shows: sums at first, finer ones where it is zoomed in, until each event is one. */
"use strict";
const MOST_EXPLAINED = 20000;
Timeline.Live = class extends Timeline.View {
  constructor(box, data) {
    super(box, data);
    this.whole = data;
    this.asking = null;
    this.want();
  }

  paint() {
    super.paint();
    this.want();
  }

  covers({window: [from, to]}) { return from <= Math.max(0, this.from) && to >= Math.min(this.end, this.to); }

  /* Whether what is held shows the view as finely as its pixels do. */
  fine(data) { return this.covers(data) && (data.window[2] <= 1 || data.window[2] * this.wide <= 1.2 * (this.to - this.from)); }

  /* One question at a time: what has come is shown while the next is asked. */
  want() {
    if (!this.whole) return;
    if (this.fine(this.whole) || !this.covers(this.data)) this.take(this.whole);
    if (this.fine(this.data)) { if (this.asking === null) this.settle?.(); return; }
    if (this.asking === null) { this.asking = {}; setTimeout(() => this.fetch(), 60); }
  }

  /* Resolves when the view is as fine as it can be. */
  rested() {
    if (this.fine(this.data) && this.asking === null) return Promise.resolve();
    return new Promise((done) => { const before = this.settle; this.settle = () => { this.settle = null; before?.(); done(); }; });
  }

  async ask(what, words) {
    this.said.textContent = "asking …";
    const answer = await fetch(`/api/timeline${what}?${new URLSearchParams({name: this.whole.live, ...words})}`);
    if (!answer.ok) throw new Error(await answer.text());
    this.said.textContent = "";
    return answer;
  }

  /* The view with as much again on both sides, so that a drag has something to show. */
  async fetch() {
    const span = this.to - this.from, words = {from: Math.floor(this.from - span), to: Math.ceil(this.to + span), bins: Math.ceil(3 * this.wide)};
    try {
      const found = await Packed.unzip(await (await this.ask("", words)).arrayBuffer());
      this.asking = null;
      if (this.covers(found)) { this.take(found); this.explained = this.explain(found); }
      this.want();
    } catch (error) { this.asking = null; this.said.textContent = error.message; }
  }

  /* Why there is idle time in view, where there are few launches: it takes longer than all else, and comes later. */
  async explain(data) {
    const launches = data.lanes.filter((lane) => lane.launches).reduce((sum, lane) => sum + lane.n, 0), summed = data.lanes.some((lane) => lane.launches && lane.many);
    if (summed || launches > MOST_EXPLAINED || data.explained) return;
    data.explained = true;
    const [from, to] = data.window, found = await (await this.ask("/causes", {from, to})).json();
    for (const {place, start, name, category} of found) {
      const lane = data.lanes.find((one) => one.lane === "idle" && one.place === place), i = lane ? Packed.first(lane.start, start) : 0;
      if (!lane || i >= lane.n || lane.start[i] !== start || lane.many?.[i] > 1) continue;
      lane.name[i] = data.names.push(name) - 1;
      data.categories.push(category);
    }
    if (data !== this.data) return;
    this.paints();
    this.legend();
    if (this.chosen?.lane.lane === "idle") this.tell();
    this.draw();
  }

  /* Show other items; rows that were there stay, and so does what is chosen. */
  take(data) {
    if (data === this.data) return;
    const chosen = this.chosen && {key: this.key(this.chosen.lane), start: this.chosen.lane.start[this.chosen.i], length: this.chosen.lane.length[this.chosen.i]};
    const held = new Set(data.lanes.map((lane) => `${this.key(lane)}\n${lane.row}`));
    for (const lane of this.whole.lanes) if (!held.has(`${this.key(lane)}\n${lane.row}`)) data.lanes.push({...lane, n: 0, start: new Float64Array(0), length: new Float64Array(0), name: new Uint32Array(0), link: new Uint32Array(0), key: new Float64Array(0), base: Infinity, ends: null, many: null});
    const place = new Map(this.whole.lanes.map((lane, i) => [this.key(lane), i])), last = new Map(this.whole.lanes.map((lane, i) => [lane.place, i]));
    const at = (lane) => place.get(this.key(lane)) ?? (last.get(lane.place) ?? 1e9) + 0.5;  // a lane that the whole view lacks comes after others of its place
    data.lanes.sort((one, other) => at(one) - at(other) || one.row - other.row);
    for (const counter of data.counters) counter.most = this.whole.counters.find((one) => one.name === counter.name)?.most;
    data.ranked = this.whole.ranked;
    this.data = data;
    this.paints();
    this.legend();
    if (this.search.value) this.find(this.search.value); else if (!this.hits.box.hidden) this.list_gaps();
    this.arrange();
    if (this.high !== this.drawn) { this.drawn = this.high; this.resize(); }
    this.chosen = chosen ? this.same(chosen) : null;
    if (this.chosen) this.tell();
    this.hits.mark();
    this.draw();
  }

  /* Go to what begins at `start`, in one of the lanes that `wanted` takes; with as much around it as `span`. */
  async go(start, span, wanted) {
    this.show(start - span / 2, start + span / 2);
    this.paint();
    await this.rested();
    for (const lane of this.data.lanes) {
      const i = wanted(lane) ? Packed.first(lane.start, start) : lane.n;
      if (i < lane.n && lane.start[i] === start) { this.choose({lane, i}); return true; }
    }
    return false;
  }

  async gap(place) {
    this.longest ??= await (await this.ask("/gaps", {})).json();
    this.gap_at = Math.min(place, this.longest.gaps.length - 1);
    const found = this.longest.gaps[this.gap_at];
    if (!found) { this.said.textContent = `no idle time of ${Packed.time(this.longest.least)} or more`; return; }
    await this.go(found.start, 3 * found.length, (lane) => lane.lane === "idle" && lane.place === found.place);
    this.fit();
    await this.rested();
    await this.explained;
  }

  async next(by) {
    const text = this.search.value.trim();
    if (!text || this.hits.only) return super.next(by);  // of a kind, or of gaps, those in view
    const at = this.chosen ? this.chosen.lane.start[this.chosen.i] : this.from;
    const found = await (await this.ask("/find", {text, at, ...(by < 0 ? {back: 1} : {})})).json();
    if (!found) { this.said.textContent = "no further one"; return; }
    const wanted = found.kind === "launch" ? (lane) => lane.launches : (lane) => lane.lane === found.kind;
    for (let span = this.to - this.from; !await this.go(found.start, span, wanted) && span > 1000;) span /= 30;
  }

  async follow() {
    const {lane, i} = this.chosen ?? {};
    if (!lane || !lane.key[i]) return super.follow();
    const span = this.to - this.from, narrow = Math.min(span, 1e6);
    if (lane.launches) { await this.go(lane.key[i] - 1, span, (one) => one.lane === "API calls") || await this.go(lane.key[i] - 1, narrow, (one) => ["API calls", "operators"].includes(one.lane)); return; }
    const found = await (await this.ask("/launched", {kind: lane.lane, id: lane.key[i] - 1})).json();
    if (found) await this.go(found.start, span, (one) => one.launches) || await this.go(found.start, narrow, (one) => one.launches);
  }

  /* The call of a launch, and what it is in, where the view has only sums of them: what the host did then is asked for. */
  async tell_caller(add) {
    const {lane, i} = this.chosen, called = lane.key[i] - 1, before = Packed.time(lane.start[i] - called);
    const link = add("launched by", `a call ${before} before`, () => this.follow()).firstChild;
    const found = await Packed.unzip(await (await this.ask("", {from: called, to: called + 1, bins: 1})).arrayBuffer());
    const call = found.lanes.find((one) => one.lane === "API calls" && one.start.includes(called));
    if (!call) return;
    link.textContent = `${found.names[call.name[call.start.indexOf(called)]]}, ${before} before`;
    const inside = [];
    for (const one of found.lanes) for (let k = 0; k < one.n; k++)
      if (one.place === call.place && one.lane !== "API calls" && Timeline.holds(one.start[k], one.length[k], called)) inside.push([one, k]);
    for (const [one, k] of inside.sort(([one, k], [other, l]) => other.length[l] - one.length[k]))
      add(Timeline.within(one), `${found.names[one.name[k]]}, ${Packed.time(one.length[k])}`, () => this.go(one.start[k], 2 * one.length[k], (other) => other.lane === one.lane && other.place === one.place));
  }

  /* What is stored of the launch comes a moment later, where its line is. */
  async tell_facts(add) {
    const {lane, i} = this.chosen, signature = this.data.signatures[lane.name[i]];
    if (!signature) return;
    const place = add("", ""), facts = await (await this.ask("/facts", {signature})).json();
    const line = place.parentElement, under = (label, value, act) => { const cell = add(label, value, act); line.before(cell.parentElement); return cell; };
    if (facts) Facts.tell(under, facts, lane.length[i]);
    line.remove();
  }

  async tell_launched(add) {
    const {lane, i} = this.chosen;
    if (!lane.key[i] || lane.many?.[i] > 1) return;
    const cell = add("launched", "…"), found = await (await this.ask("/launched", {kind: lane.lane, id: lane.key[i] - 1})).json();
    cell.textContent = found ? `${Packed.several(found.n, "launch", "launches")}, ${Packed.time(found.total_ns)}; f goes to the first` : "nothing";
  }

  async tell_range() {
    if (!this.whole.window[2]) { super.tell_range(); return; }  // each event is here
    const [from, to] = this.range, rows = await (await this.ask("/sums", {from: Math.floor(from), to: Math.ceil(to)})).json();
    this.tell_sums(rows.map((row) => [row.kind, row.name, row.n.toLocaleString("en"), row.total_ns]));
  }
};
