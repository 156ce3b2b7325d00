/* Collectives of a timeline (kerneldb/report/exchanges.py): what each is, how long it waited for which rank, and which launches of other ranks it is. */
"use strict";
const Ranks = (() => {
  const {first, time, amount} = Packed;

  return class {
    constructor(data) {
      this.data = data;
      this.known = new Map();  // an item → what is told of it
      this.instances = [];
      const {lanes = [], kinds = [], rows = []} = data.exchanges ?? {};
      const of = lanes.map(([place, name]) => data.lanes.filter((lane) => lane.place === place && lane.lane === name));
      for (const [lane, kind, instance, start, transfer, wait, late, bus] of rows)
        for (const held of of[lane]) {
          const i = first(held.start, start);
          if (i >= held.n || held.start[i] !== start) continue;
          const told = {lane: held, i, rank: lanes[lane][2], kind: kinds[kind], transfer, wait, late, bus, instance};
          this.known.set(held.base + i, told);
          (this.instances[instance] ??= []).push(told);
        }
    }

    /* What is known of an item that is a collective. */
    of({lane, i}) { return this.known.get(lane.base + i); }

    /* The same collective on other ranks, in their order. */
    partners(event) {
      const here = this.of(event);
      return here ? this.instances[here.instance].filter((one) => one !== here).sort((one, other) => one.rank - other.rank) : [];
    }

    /* The same collective on the next rank, round and round. */
    next(event) {
      const here = this.of(event), others = this.partners(event);
      return others.find((one) => one.rank > here.rank) ?? others[0];
    }

    /* Have the table of who waits for whom lead to the longest wait of each row, where the ranks of one job are in this timeline. */
    lead(view) {
      const table = document.querySelector('table[aria-label="Waits of each rank for another"]'), rows = [...(table?.tBodies[0].rows ?? [])];
      if (!rows.length || new Set((this.data.exchanges?.lanes ?? []).map((lane) => lane[2])).size < 2) return;
      const titles = [...table.tHead.rows[0].cells].map((one) => one.textContent), cell = (row, title) => row.cells[titles.indexOf(title)];
      if (new Set(rows.map((row) => cell(row, "job").textContent)).size > 1) return;
      for (const row of rows) {
        const [rank, late] = ["rank", "waits for rank"].map((title) => Number(cell(row, title).dataset.v)), shown = cell(row, "begun at");
        const waits = [...this.known.values()].filter((one) => one.rank === rank && one.late === late);
        if (!waits.length) continue;
        const longest = waits.reduce((one, other) => other.wait > one.wait ? other : one), link = Packed.element("button", shown.textContent, {type: "button", class: "tl-link", title: "Show it in the timeline"});
        link.addEventListener("click", () => { view.choose(longest, true); view.fit(); view.canvas.focus({preventScroll: true}); });
        shown.replaceChildren(link);
      }
    }

    /* Add lines about a collective, and one for each of the other ranks, which leads there. */
    tell(add, event) {
      const here = this.of(event);
      if (!here) return;
      const [operation, dtype, bytes, group, size] = here.kind, others = this.partners(event);
      add("collective", [operation || "collective", bytes != null && `of ${amount(bytes, "bytes")}`, dtype, group?.startsWith("[") ? `of ranks ${group.slice(1, -1)}` : size != null && `of ${size} ranks`].filter(Boolean).join(" "));
      if (here.wait != null) add("waited", this.waited(here));
      else if (size > 1) add("waited", "not known: not all ranks of the group show it");
      if (others.length && this.data.aligned) {
        const all = [here, ...others].sort((one, other) => one.lane.start[one.i] - other.lane.start[other.i]), [early, late] = [all[0], all[all.length - 1]];
        add("began", `${time(late.lane.start[late.i] - early.lane.start[early.i])} apart: rank ${early.rank} first, rank ${late.rank} last`);
      }
      for (const other of others) add(`on rank ${other.rank}`, this.beside(here, other), other);
    }

    /* Whether the clocks say, too, that the rank with the shortest launch began last: who sends may leave a broadcast, or a reduction to one rank, before others come. */
    agree({instance, late}) {
      const all = this.instances[instance], start = (one) => one.lane.start[one.i], last = Math.max(...all.map(start));
      return !this.data.aligned || all.length < 2 || all.some((one) => one.rank === late && start(one) === last);
    }

    waited(here) {
      const {transfer, wait, late, bus, rank, instance} = here, agree = this.agree(here);
      const moved = `the transfer took ${time(transfer)}${bus == null ? "" : `, ${bus.toLocaleString("en", {maximumSignificantDigits: 3})} GB/s of bus bandwidth`}`;
      if (this.instances[instance].every((one) => !one.wait)) return `no rank waited; ${moved}`;
      if (wait > 0) return `${time(wait)} ${agree ? `for rank ${late}, which joined last` : `longer than on rank ${late}, where it took least`}; ${moved}`;
      return `not at all: ${rank !== late || !agree ? "it took least here" : "this rank joined last"}; ${moved}`;
    }

    /* When another rank began the same collective, where their clocks are the same, and how long it took there. */
    beside(here, other) {
      const by = other.lane.start[other.i] - here.lane.start[here.i], took = time(other.lane.length[other.i]);
      return this.data.aligned ? `began ${time(Math.abs(by))} ${by < 0 ? "before" : "after"} this, took ${took}` : `took ${took}`;
    }
  };
})();
