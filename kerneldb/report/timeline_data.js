/* The packed events of kerneldb/report/events.py, and what is done with them whoever draws them. */
"use strict";
const Packed = (() => {
  function unpack(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return unzip(bytes);
  }

  async function unzip(bytes) {
    return read(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  }

  function read(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    const bytes = new Uint8Array(buffer);
    let at = 4 + size, base = 0;
    const column = (n, Kind) => {
      const out = new Kind(n), planes = bytes[at++];
      for (let plane = 0, scale = 1; plane < planes; plane++, scale *= 256) {
        const part = bytes.subarray(at, at += n);
        for (let i = 0; i < n; i++) out[i] += part[i] * scale;
      }
      return out;
    };
    for (const lane of head.lanes) {
      lane.start = column(lane.n, Float64Array);
      for (let i = 1; i < lane.n; i++) lane.start[i] += lane.start[i - 1];
      lane.length = column(lane.n, Float64Array);
      lane.name = column(lane.n, Uint32Array);
      lane.link = column(lane.n, Uint32Array);
      if (lane.summed) { lane.many = column(lane.n, Float64Array); lane.busy = column(lane.n, Float64Array); }
      if (head.live) lane.key = column(lane.n, Float64Array);
      lane.base = base;
      base += lane.n;
      lane.gpu = lane.place.startsWith("GPU");
      lane.launches = lane.gpu && !["phase", "module", "idle"].includes(lane.lane);
    }
    return head;
  }

  /* The first place in a sorted array whose value is at least `value`. */
  function first(array, value, low = 0) {
    let high = array.length;
    while (low < high) { const middle = (low + high) >> 1; if (array[middle] < value) low = middle + 1; else high = middle; }
    return low;
  }

  function time(ns) {
    const size = Math.abs(ns);
    const [scale, unit] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    return `${Number((ns / scale).toPrecision(4)).toLocaleString("en")} ${unit}`;
  }

  /* A point in time, with the digits that tell times `step` ns apart; 1: to the nanosecond. */
  function clock(ns, step = 1) {
    const sign = ns < 0 ? "−" : "", size = Math.abs(ns), exponent = [9, 6, 3].find((power) => size >= 10 ** power) ?? 0;
    const digits = Math.max(0, exponent - String(Math.max(1, Math.floor(step))).length + 1), scale = 10 ** exponent;
    const rest = digits ? `.${String(size % scale).padStart(exponent, "0").slice(0, digits)}` : "";
    return `${sign}${Math.floor(size / scale).toLocaleString("en")}${rest} ${["ns", "µs", "ms", "s"][exponent / 3]}`;
  }

  /* A value of a counter; bytes in their larger units. */
  function amount(value, unit) {
    const [scale, name] = unit !== "bytes" ? [1, unit ?? ""] : value >= 1e9 ? [1e9, "GB"] : value >= 1e6 ? [1e6, "MB"] : value >= 1e3 ? [1e3, "KB"] : [1, unit];
    return `${(value / scale).toLocaleString("en", {maximumSignificantDigits: 4})} ${name}`;
  }

  /* A number of things: 1 event, 2 events. */
  function several(n, one, many = `${one}s`) { return `${n.toLocaleString("en")} ${n === 1 ? one : many}`; }

  function element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  return {unpack, unzip, first, time, clock, amount, several, element};
})();
