/* What is stored of a launch, as lines of a panel: its call, its shape, its resources, and what of the peaks it reached in its own time. */
"use strict";
const Facts = (() => {
  const {amount} = Packed;

  function scaled(value, unit) {
    const [scale, prefix] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => value >= size) ?? [1, ""];
    return `${(value / scale).toLocaleString("en", {maximumSignificantDigits: 3})} ${prefix}${unit}`;
  }

  function share(part, whole) { return whole ? `, ${(100 * part / whole).toLocaleString("en", {maximumSignificantDigits: 3})} % of the peak` : ""; }

  function sized(sizes) { return sizes.map((one) => (one ?? 1).toLocaleString("en")).join(" × "); }

  function resources({registers, shared_bytes, occupancy, limiter}) {
    const told = [];
    if (registers != null) told.push(`${registers} registers a thread`);
    if (shared_bytes != null) told.push(`${amount(shared_bytes, "bytes")} shared memory a block`);
    if (occupancy != null) told.push(`occupancy ${(100 * occupancy).toFixed(0)} % at most${limiter ? ` (by ${limiter.replaceAll("_", " ").replaceAll(",", ", ")})` : ""}`);
    return told.join(", ");
  }

  /* The rates of a launch that took `ns`, of the peaks of its GPU where these are known. */
  function rates({flops, moved_bytes, peak_flops_per_second, peak_bytes_per_second}, ns) {
    const told = [];
    if (flops && ns) told.push(`${scaled(flops / ns * 1e9, "FLOP/s")}${share(flops / ns * 1e9, peak_flops_per_second)}`);
    if (moved_bytes && ns) told.push(`${scaled(moved_bytes / ns * 1e9, "B/s")}${share(moved_bytes / ns * 1e9, peak_bytes_per_second)}`);
    return told.join("; ");
  }

  /* Add a line for each fact; `ns` is how long the launch took. */
  function tell(add, facts, ns) {
    const {op, shapes, dtype, gemm_m, gemm_n, gemm_k, grid, block, flops, moved_bytes, bytes, method} = facts;
    if (shapes) add("shapes", [op, shapes, dtype].filter(Boolean).join(" "));
    if (gemm_m != null) add("product", `${gemm_m} × ${gemm_n} × ${gemm_k} (m, n, k)`);
    if (grid) add("grid", `${sized(grid)} blocks${block ? ` of ${sized(block)} threads` : ""}`);
    if (resources(facts)) add("resources", resources(facts));
    if (bytes != null) add("size", amount(bytes, "bytes"));
    const work = [flops && scaled(flops, "FLOP"), moved_bytes && amount(moved_bytes, "bytes")].filter(Boolean).join(", ");
    if (work && bytes == null) add("work", `${work}${method ? ` (from: ${method})` : ""}`);
    if (rates(facts, ns)) add("reached", rates(facts, ns));
    const at = window.points?.get(facts.point);
    if (at) add("roofline", "show its point", () => at());
  }

  return {tell};
})();
