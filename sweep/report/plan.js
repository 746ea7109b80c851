// A plan: latency over load, the simulated fleet over time, sensitivity, other loads.
const LOWER = "#0072B2", HIGHER = "#D55E00";
const curve = new Chart(document.getElementById("curve"), {
  tip: (k, s) => [s.name, `${number(s.x[k])} requests/s`, `${latency.title} ${number(s.y[k])} ms`],
});
const LATENCIES = ["ttft_ms", "tpot_ms", "e2e_ms"].map(name => ({ name, title: `${name.split("_")[0].toUpperCase()} p${data.percentile}` }));
let latency = LATENCIES[0];
function drawCurve() {
  const series = data.curve.map(one => {
    const rows = one.requests_per_s.map((_, k) => k).filter(k => one.requests_per_s[k] > 0 && one[latency.name][k] > 0);
    const x = rows.map(k => one.requests_per_s[k]), y = rows.map(k => one[latency.name][k]);
    return { name: one.name, colour: one.colour, symbol: one.symbol, x, y, ids: x.map((_, k) => k), line: true, size: 3.5 };
  });
  const limit = data.slo[latency.name];
  curve.set(series.reverse(), { x: { title: "requests/s of one replica", log: true }, y: { title: `${latency.title} (ms)`, log: true },
    limits: limit ? [{ y: limit, text: "SLO" }] : [] });
}
const select = element("select", LATENCIES.map((l, k) => { const o = element("option", l.title); o.value = k; return o; }));
select.addEventListener("change", () => { latency = LATENCIES[select.value]; drawCurve(); });
document.getElementById("controls").append(element("label", ["latency", select], "choice"));
drawCurve();

const timeline = data.timeline, place = document.getElementById("timeline");
if (timeline) {
  const about = document.getElementById("timeline-about");
  about.textContent = `${timeline.replicas} working replicas of the answer in the simulator at the planned load, all together. The queue of waiting requests must not grow.`;
  const panes = [["tokens/s", [["output", timeline.output_tok_s, LOWER], ["prompt", timeline.prompt_tok_s, HIGHER]]],
    ["requests", [["running", timeline.running, LOWER], ["waiting", timeline.waiting, HIGHER]]],
    ["share of the KV cache in use", [["KV cache", timeline.kv_share, LOWER]]]];
  for (const [title, lines] of panes) {
    const box = element("div", null, "short");
    place.append(box);
    new Chart(box, { tip: (k, s) => [s.name, `${number(s.y[k])} at ${number(s.x[k])} s`] }).set(
      lines.map(([name, y, colour]) => ({ name, colour, x: timeline.seconds, y, ids: y.map((_, k) => k), line: true, pointless: true })),
      { x: { title: "simulated time (s)" }, y: { title, zero: true } });
  }
} else place.append(element("p", "Nothing was simulated (demand.simulate=false)."));

const base = data.base_usd_per_hour, swings = document.getElementById("sensitivity");
if (base !== null && data.sensitivity.length) {
  const ends = data.sensitivity.flatMap(s => [s.usd_per_hour_low, s.usd_per_hour_high]).filter(v => v !== null);
  const low = Math.min(base, ...ends), high = Math.max(base, ...ends), at = v => 100 * (v - low) / (high - low || 1);
  for (const s of data.sensitivity) {
    const bar = element("div", null, "swing");
    for (const [usd, colour, word] of [[s.usd_per_hour_low, LOWER, "lower"], [s.usd_per_hour_high, HIGHER, "higher"]]) {
      const to = usd === null ? 100 : at(usd), piece = element("span");
      piece.style.cssText = `left:${Math.min(to, at(base))}%;width:${Math.abs(to - at(base))}%;background:${colour}`;
      piece.title = usd === null ? `${word}: misses the SLO` : `${word}: $${number(usd)}/h`;
      bar.append(piece);
    }
    const middle = element("i");
    middle.style.left = `${at(base)}%`;
    bar.append(middle);
    const text = v => v === null ? "misses SLO" : `$${number(v)}`;
    swings.append(element("div", s.input), bar, element("div", `${text(s.usd_per_hour_low)} to ${text(s.usd_per_hour_high)}`, "n"));
  }
} else swings.append(element("div", "The answer has no price."));

document.getElementById("loads").append(tableOf(data.by_load.map(s => [s.design, `${number(s.from)} to ${number(s.to)} ${data.unit}`])));
