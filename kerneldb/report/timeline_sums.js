/* What a range of a timeline holds, as rows of kind, name, number and ns: each GPU's time, that of its streams, and the names with most time. */
"use strict";
const Sums = (() => {
  const {first} = Packed, NAMED = 15, KINDS = ["GPU", "idle", "phase", "module", "annotations", "operators", "API calls", "Python"], FOLDED = ["phase", "module", "annotations", "Python"];

  /* The part of an item within the range; less than nothing where it is not in it. */
  function share(lane, i, from, to) { return Math.min(to, lane.start[i] + lane.length[i]) - Math.max(from, lane.start[i]); }

  /* Calls `use(i, share)` for the items of a lane that are in the range. */
  function each(view, lane, [from, to], use) {
    for (let i = first(view.ends(lane), from); i < lane.n && lane.start[i] < to; i++) { const part = share(lane, i, from, to); if (part >= 0) use(i, part); }
  }

  /* How long at least one of the lanes had an event. */
  function covered(view, lanes, range) {
    const spans = [];
    for (const lane of lanes) each(view, lane, range, (i, part) => { const start = Math.max(range[0], lane.start[i]); spans.push([start, start + part]); });
    let sum = 0, until = range[0];
    for (const [start, end] of spans.sort((one, other) => one[0] - other[0])) { sum += Math.max(0, end - Math.max(start, until)); until = Math.max(until, end); }
    return sum;
  }

  /* Of a GPU the parts that make up the range: busy with at least one launch, idle between launches, and before its first or after its last launch. */
  function parts(view, place, range, idle) {
    const lanes = view.data.lanes.filter((lane) => lane.place === place && lane.launches && lane.n), [from, to] = range;
    const begun = Math.min(...lanes.map((lane) => lane.start[0])), ended = Math.max(...lanes.map((lane) => view.ends(lane)[lane.n - 1]));
    const outside = to - from - Math.max(0, Math.min(to, ended) - Math.max(from, begun)), summed = lanes.some((lane) => lane.many);
    const busy = ["busy", summed ? `${place}, with idle times that are too short for this file` : place, "", summed ? to - from - outside - idle : covered(view, lanes, range)];
    return [busy, ["idle", place, "", idle], ["outside", `${place}, before its first and after its last launch`, "", outside]];
  }

  /* The names with most time; one name may have several categories, and a place for each. */
  function most(view, kind, spent, counts) {
    const found = new Map();
    counts.forEach((n, place) => {
      if (!n) return;
      const name = view.data.names[place] ?? "shorter ones, summed", held = found.get(name) ?? [0, 0];
      found.set(name, [held[0] + spent[place], held[1] + n]);
    });
    return [...found].sort((one, other) => other[1][0] - one[1][0]).slice(0, NAMED).map(([name, [sum, n]]) => [kind, name, n.toLocaleString("en"), sum]);
  }

  /* Frames of the program itself, each with the time in which no other of them was within it. */
  function lines(view, lanes, [from, to], spent, counts) {
    const frames = [], open = [], names = view.data.names;
    for (const lane of lanes) each(view, lane, [from, to], (i, part) => {
      if (lane.many?.[i] > 1) { counts[names.length] += lane.many[i]; spent[names.length] += lane.busy[i] * part / Math.max(1, lane.length[i]); }
      else if (Timeline.own(names[lane.name[i]])) frames.push({start: lane.start[i], end: lane.start[i] + lane.length[i], name: lane.name[i]});
    });
    let at = from;
    const spend = (frame, t) => { spent[frame.name] += Math.max(0, Math.min(t, to) - at); at = Math.max(at, t); };
    const until = (t) => { while (open.length && open.at(-1).end <= t) spend(open.at(-1), open.pop().end); if (open.length) spend(open.at(-1), t); at = Math.max(at, t); };
    for (const frame of frames.sort((one, other) => one.start - other.start || other.end - one.end)) { until(frame.start); open.push(frame); counts[frame.name]++; }
    until(Infinity);
  }

  function rows(view, ...range) {
    const {lanes, names} = view.data, sums = new Map(), idle = new Map(), streams = [];
    const shown = lanes.filter((lane) => !FOLDED.includes(lane.lane) || !view.closed.has(view.key(lane)));
    for (const lane of shown) {
      const kind = lane.lane !== "idle" && lane.launches ? "GPU" : lane.lane;
      if (!sums.has(kind)) sums.set(kind, [new Float64Array(names.length + 1), new Float64Array(names.length + 1)]);
      if (kind === "Python") continue;
      const [spent, counts] = sums.get(kind);  // by place of the name; at the end, what is summed
      let sum = 0;
      each(view, lane, range, (i, part) => {
        const many = lane.many?.[i] > 1, took = many ? lane.busy[i] * part / Math.max(1, lane.length[i]) : part, name = many ? names.length : lane.name[i];
        sum += took; spent[name] += took; counts[name] += lane.many?.[i] ?? 1;
      });
      if (kind === "idle") idle.set(lane.place, (idle.get(lane.place) ?? 0) + sum);
      const before = streams.find((one) => one[0] === lane.lane && one[1] === lane.place);
      if (kind === "GPU" && before) before[3] += sum; else if (kind === "GPU") streams.push([lane.lane, lane.place, "", sum]);
    }
    const threads = shown.filter((lane) => lane.lane === "Python");
    for (const place of new Set(threads.map((lane) => lane.place))) lines(view, threads.filter((lane) => lane.place === place), range, ...sums.get("Python"));
    const places = [...new Set(streams.map((one) => one[1]))];
    const named = KINDS.filter((kind) => sums.has(kind)).flatMap((kind) => most(view, kind === "Python" ? "Python, innermost line of the program" : kind, ...sums.get(kind)));
    return [...places.flatMap((place) => [...parts(view, place, range, idle.get(place) ?? 0), ...streams.filter((one) => one[1] === place)]), ...named];
  }

  return {rows};
})();
