/* What a search of a timeline found: how many, and a list of them to walk through. Events come before what is derived of them, such as the critical path. */
"use strict";
const Hits = (() => {
  const {element, several, time} = Packed, MOST = 100000, SHOWN = 50, BEFORE = 3, GAP = "idle time", NUMBERS = ["start", "duration"];
  const DERIVED = ["critical path", "phase", "module", "idle"];

  return class {
    constructor(view) {
      this.view = view;
      this.found = [];
      this.at = -1;
      this.longest = false;
      this.only = null;
      this.box = element("div", undefined, {class: "tl-hits"});
      this.box.hidden = true;
    }

    /* What kind of item a lane has: launches of all streams are one. */
    kind(lane) { return lane.launches ? "launches" : lane.lane; }

    /* Look for items whose name is among `names` (places of names, or null), and list them. */
    find(names) {
      const events = [], derived = [];
      this.others = new Set();
      this.n = 0;
      if (names?.size) for (const lane of this.view.data.lanes) {
        const is_derived = DERIVED.includes(lane.lane), into = is_derived ? derived : events;
        for (let i = 0; i < lane.n; i++) {
          if (!names.has(lane.name[i])) continue;
          if (is_derived) this.others.add(lane.lane); else this.n++;
          if (into.length < MOST) into.push({lane, i});
        }
      }
      this.events = events; this.derived = derived; this.asked = names !== null; this.what = "event";
      this.order();
    }

    /* List these items, the longest first; `what` is one of them. */
    list(items, what) {
      Object.assign(this, {events: items, derived: [], others: new Set(), n: items.length, asked: true, what, longest: true});
      this.order();
    }

    order() {
      const by = this.longest ? (hit) => -hit.lane.length[hit.i] : (hit) => hit.lane.start[hit.i];
      for (const hits of [this.events, this.derived]) hits.sort((one, other) => by(one) - by(other));
      const all = [...this.events, ...this.derived];
      this.kinds = new Map();
      for (const {lane} of all) this.kinds.set(this.kind(lane), (this.kinds.get(this.kind(lane)) ?? 0) + 1);
      if (!this.kinds.has(this.only)) this.only = null;
      this.found = this.only ? all.filter((hit) => this.kind(hit.lane) === this.only) : all;
      this.mark();
    }

    /* How many there are, as words. */
    words() {
      if (!this.asked) return "";
      const more = this.derived.length ? `; ${this.derived.length.toLocaleString("en")} more on ${[...this.others].join(", ")}` : "";
      return `${several(this.n, this.what)}${this.view.data.live ? " in view" : ""}${more}`;
    }

    /* The hit after or before the one that is chosen, round and round. */
    next(by) {
      if (!this.found.length) return null;
      this.at = this.at < 0 && by < 0 ? this.found.length - 1 : (this.at + by + this.found.length) % this.found.length;
      return this.found[this.at];
    }

    /* Show which one is chosen. */
    mark() {
      const {chosen} = this.view, is = (hit) => hit && chosen && hit.lane === chosen.lane && hit.i === chosen.i;
      if (!is(this.found[this.at])) this.at = this.found.findIndex(is);
      this.show();
    }

    show() {
      this.box.hidden = !this.found.length;
      if (this.box.hidden) return;
      const first = Math.max(0, Math.min(this.at - BEFORE, this.found.length - SHOWN)), shown = this.found.slice(first, first + SHOWN);
      const head = element("div", `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${this.found.length.toLocaleString("en")} `, {class: "dim"});
      if (this.kinds.size > 1) head.append(this.choice("show: ", [["all", null], ...[...this.kinds].map(([kind, n]) => [`${kind} (${n.toLocaleString("en")})`, kind])], "only"));
      head.append(this.choice("sort: ", [["time", false], ["duration", true]], "longest"));
      const table = element("table", undefined, {"aria-label": "What was found"}), titles = table.createTHead().insertRow(), body = table.createTBody();
      const gaps = this.what === GAP, columns = gaps ? ["GPU", "start", "duration", "cause", "operator that ended it", "what the host did: Python line, or call"] : ["name", "lane", "start", "duration"];
      for (const title of columns) titles.append(element("th", title, NUMBERS.includes(title) ? {class: "right"} : {}));
      shown.forEach((hit, place) => body.append(this.row(hit, first + place, gaps ? this.gap(hit) : this.event(hit))));
      this.box.replaceChildren(head, table);
      const now = body.querySelector("[aria-current]");
      this.box.scrollTop = now ? Math.max(0, now.offsetTop - this.box.clientHeight / 2) : 0;
    }

    /* Buttons of which one is pressed: the values of a property, by which the list is made. */
    choice(label, values, property) {
      const box = element("span", label, {role: "group", class: "tl-choice"});
      for (const [text, value] of values) {
        const button = element("button", text, {type: "button", "aria-pressed": String(this[property] === value)});
        button.addEventListener("click", () => { this[property] = value; this.order(); [...this.box.querySelectorAll(".tl-choice button")].find((one) => one.textContent === text)?.focus(); });
        box.append(button);
      }
      return box;
    }

    event({lane, i}) { return [this.view.title({lane, i}), Drawing.titled(lane), this.view.clock(lane.start[i]), time(lane.length[i])]; }

    gap({lane, i}) {
      const {operator, line} = this.view.ended({lane, i});
      return [lane.place, this.view.clock(lane.start[i]), time(lane.length[i]), this.view.data.categories[lane.name[i]]?.replace("idle: ", "") ?? "", operator ?? "–", line ?? "–"];
    }

    row({lane, i}, at, [first, ...cells]) {
      const line = element("tr"), name = element("td", undefined, this.what === GAP ? {class: "brief"} : {}), link = element("button", first, {type: "button", class: "tl-link"});
      if (at === this.at) line.setAttribute("aria-current", "true");
      link.addEventListener("click", () => { this.at = at; this.view.choose({lane, i}, true); this.view.canvas.focus({preventScroll: true}); });
      name.append(link);
      const from = this.what === GAP ? 0 : 1;  // where the two numbers are
      line.append(name, ...cells.map((cell, place) => element("td", cell, place === from || place === from + 1 ? {class: "right"} : {})));
      return line;
    }
  };
})();
