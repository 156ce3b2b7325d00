/* What a search of a timeline found: how many, and a list of them to walk through. Events come before what is derived of them, such as the critical path. */
"use strict";
const Hits = (() => {
  const {element, several, time} = Packed, MOST = 100000, SHOWN = 50, BEFORE = 3;
  const DERIVED = ["critical path", "phase", "module", "idle"];

  return class {
    constructor(view) {
      this.view = view;
      this.found = [];
      this.at = -1;
      this.longest = false;
      this.box = element("div", undefined, {class: "tl-hits"});
      this.box.hidden = true;
    }

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
      this.found = [...this.events, ...this.derived];
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
      const order = element("button", this.longest ? "longest first" : "in order of time", {type: "button", title: "Change the order of the list"});
      order.addEventListener("click", () => { this.longest = !this.longest; this.order(); this.box.querySelector("button").focus(); });
      const head = element("div", `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${this.found.length.toLocaleString("en")}, `, {class: "dim"});
      head.append(order);
      const table = element("table", undefined, {"aria-label": "What was found"}), titles = table.createTHead().insertRow(), body = table.createTBody();
      for (const title of ["name", "lane", "start", "duration"]) titles.append(element("th", title, title === "name" || title === "lane" ? {} : {class: "right"}));
      shown.forEach((hit, place) => body.append(this.row(hit, first + place)));
      this.box.replaceChildren(head, table);
      const now = body.querySelector("[aria-current]");
      this.box.scrollTop = now ? Math.max(0, now.offsetTop - this.box.clientHeight / 2) : 0;
    }

    row({lane, i}, at) {
      const line = element("tr"), name = element("td"), link = element("button", this.view.title({lane, i}), {type: "button", class: "tl-link"});
      if (at === this.at) line.setAttribute("aria-current", "true");
      link.addEventListener("click", () => { this.at = at; this.view.choose({lane, i}, true); this.view.canvas.focus({preventScroll: true}); });
      name.append(link);
      line.append(name, element("td", Drawing.titled(lane)), element("td", this.view.clock(lane.start[i]), {class: "right"}), element("td", time(lane.length[i]), {class: "right"}));
      return line;
    }
  };
})();
