/* What a timeline shows, kept in the fragment of the page's address: who opens it sees the same. Times are in ns, from the first launch on, as on the ruler. */
"use strict";
const Address = (() => {
  const PAUSE = 300;  // browsers refuse changes of an address that come fast

  return class {
    constructor(view) {
      this.view = view;
      this.kept = this.words();
      window.addEventListener("hashchange", () => this.go());
    }

    /* The view, what is searched for, the lanes that are asked for, and the event or the range that is chosen; nothing of a whole trace without these. */
    words() {
      const {from, to, end, chosen, range, data} = this.view, told = (t) => Math.round(t - data.zero);
      const typed = Object.entries(this.boxes()).filter(([, box]) => box.value.trim());
      if (!chosen && !range && !typed.length && from <= 0 && to >= end) return "";
      const words = new URLSearchParams({...(data.trace ? {trace: data.trace} : {}), from: told(from), to: told(to)});
      for (const [name, box] of typed) words.set(name, box.value);
      if (chosen) {
        const {lane, i} = chosen;
        for (const [name, value] of Object.entries({lane: lane.lane, place: lane.place, start: told(lane.start[i]), duration: lane.length[i]})) words.set(name, value);
      } else if (range) words.set("range", range.map(told).join(" "));
      return words.toString();
    }

    /* Where text is typed, by its name in the address: a search, and words of the titles of lanes. */
    boxes() { return {search: this.view.search, lanes: this.view.sought}; }

    /* The view may have changed: its address changes when it rests. */
    later() {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.keep(), PAUSE);
    }

    keep() {
      const words = this.words();
      if (words === this.kept) return;
      this.kept = words;
      try { history.replaceState(history.state, "", words ? `#${words}` : location.pathname + location.search); } catch { /* a page within a notebook has no address of its own */ }
    }

    /* Show what the address says, if it speaks of this timeline. */
    async go() {
      const view = this.view, words = new URLSearchParams(location.hash.slice(1));
      const at = (text) => Number(text) + view.data.zero, [from, to] = ["from", "to"].map((name) => at(words.get(name)));
      if ((words.get("trace") ?? "") !== view.data.trace || !words.has("from") || !(to > from)) return;
      for (const [name, box] of Object.entries(this.boxes())) {
        if (box.value === (words.get(name) ?? "")) continue;
        box.value = words.get(name) ?? "";
        box.dispatchEvent(new Event("input"));
      }
      view.box.scrollIntoView({block: "start"});
      view.show(from, to);
      view.paint();
      await view.rested();
      const range = words.get("range")?.split(" ").map(at);
      if (words.has("lane")) {
        const found = view.same({key: view.key({lane: words.get("lane"), place: words.get("place")}), start: at(words.get("start")), length: Number(words.get("duration"))});
        if (found) { view.choose(found); view.reveal(found.lane); } else view.said.textContent = "the event of the address is not in this view";
      } else if (range?.length === 2 && range[1] > range[0]) view.sum(...range);
    }
  };
})();
