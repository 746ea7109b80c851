// The points of a sweep: filters, one plot of two figures, the deployment under the pointer.
const column = name => data.columns[name];
function value(name, i) {
  const c = column(name);
  if (c === undefined) return null;
  if ("constant" in c) return c.constant;
  return c.words ? (c.codes[i] === null ? null : c.words[c.codes[i]]) : c.values[i];
}
const raw = (name, i) => { const c = column(name); return "constant" in c ? 0 : c.words ? c.codes[i] : c.values[i]; };
const label = name => data.heads[name] || name;

function distinct(name) {
  const c = column(name);
  if (c === undefined || "constant" in c) return [];
  const found = [...new Set(c.words ? c.codes : c.values)].filter(v => v !== null).sort((a, b) => a - b);
  return found.map(v => [v, c.words ? c.words[v] : number(v)]);
}

// Controls.
const controls = document.getElementById("controls");
const state = { view: null, scenario: {}, filters: {}, own: true, slo: false, bars: true, pinned: null };
function choice(title, options, first, change) {
  const select = element("select", options.map(([key, text]) => { const o = element("option", text); o.value = key; return o; }));
  select.value = first;
  select.addEventListener("change", () => { change(select.value); draw(); });
  controls.append(element("label", [title, select], "choice"));
  return select;
}
function check(name, title) {
  const box = element("input");
  box.type = "checkbox";
  box.checked = state[name];
  box.dataset.name = name;
  box.addEventListener("change", () => { state[name] = box.checked; draw(); });
  controls.append(element("label", [box, title], "check"));
}
function filter(name) {
  const options = distinct(name);
  if (options.length < 2) return;
  const chosen = state.filters[name] = new Set(options.map(([v]) => v));
  const summary = element("summary");
  const boxes = options.map(([v, text]) => {
    const box = element("input");
    box.type = "checkbox";
    box.checked = true;
    box.value = text;
    box.addEventListener("change", () => { box.checked ? chosen.add(v) : chosen.delete(v); told(); draw(); });
    return box;
  });
  const set = on => { options.forEach(([v], k) => { boxes[k].checked = on; on ? chosen.add(v) : chosen.delete(v); }); told(); draw(); };
  const all = element("button", "all"), none = element("button", "none");
  all.addEventListener("click", () => set(true));
  none.addEventListener("click", () => set(false));
  const menu = element("details", [summary, element("div", [element("div", [all, none]),
    ...options.map(([, text], k) => element("label", [boxes[k], text]))])], "filter");
  menu.dataset.name = name;
  function told() {
    const n = chosen.size;
    summary.textContent = `${label(name)}: ${n === options.length ? "all" : n === 1 ? options.find(([v]) => chosen.has(v))[1] : n ? n + " of " + options.length : "none"}`;
    menu.classList.toggle("active", n !== options.length);
  }
  told();
  controls.append(menu);
}
document.addEventListener("click", event => {
  for (const menu of document.querySelectorAll("details.filter[open]")) if (!menu.contains(event.target)) menu.open = false;
});

choice("axes", data.views.map((v, k) => [String(k), v.name]), "0", k => { state.view = data.views[k]; });
state.view = data.views[0];
for (const name of data.scenario) {
  const options = distinct(name);
  if (!options.length) continue;
  state.scenario[name] = options[0][0];
  choice(label(name), options.map(([v, text]) => [String(v), text]), String(options[0][0]), v => { state.scenario[name] = Number(v); });
}
data.filters.forEach(filter);
check("own", "accelerators' own frontiers only");
check("slo", "only what meets the SLO");
check("bars", "intervals");

// What is shown.
function shownRows() {
  const tests = Object.entries(state.scenario).map(([name, v]) => [column(name), new Set([v])]);
  for (const [name, chosen] of Object.entries(state.filters)) {
    if (chosen.size < distinct(name).length) tests.push([column(name), chosen]);
  }
  const rows = [], x = column(state.view.x), y = column(state.view.y), meets = column("meets_slo");
  for (let i = 0; i < data.rows; i++) {
    if (x.values[i] === null || y.values[i] === null) continue;
    if (state.slo && !("constant" in meets ? meets.constant : meets.values[i])) continue;
    if (tests.every(([c, chosen]) => "constant" in c || chosen.has(c.words ? c.codes[i] : c.values[i]))) rows.push(i);
  }
  return rows;
}
// Rows that no other of `rows` beats on both axes, the best x first.
function frontierOf(rows) {
  const x = column(state.view.x).values, y = column(state.view.y).values, sign = state.view.more_is_better ? -1 : 1;
  const order = [...rows].sort((a, b) => sign * (x[a] - x[b]) || sign * (y[a] - y[b]));
  const kept = [];
  let best = Infinity;
  for (const i of order) if (sign * y[i] < best) { kept.push(i); best = sign * y[i]; }
  return kept;
}
function interval(i) {
  if (!state.view.interval) return null;
  const low = value(state.view.interval + "_p10", i), high = value(state.view.interval + "_p90", i);
  if (low === null || high === null) return null;
  return state.view.inverse ? [1000 / high, 1000 / low] : [low, high];
}
const short = i => [`${value("gpus", i)} × ${value("hardware", i)}`,
  data.design.filter(name => name !== "hardware").map(name => `${label(name)} ${number(value(name, i))}`).join(", "),
  `${state.view.x_title} ${number(value(state.view.x, i))}`, `${state.view.y_title} ${number(value(state.view.y, i))}`];
const panel = document.getElementById("details");
const chart = new Chart(document.getElementById("plot"), {
  tip: short,
  point: i => { if (state.pinned === null) show(i); },
  click: i => { state.pinned = state.pinned === i ? null : i; show(i); },
});

function draw() {
  const view = state.view, rows = shownRows();
  const x = column(view.x).values, y = column(view.y).values;
  const groups = new Map(Object.keys(data.styles).map(name => [name, []]));
  for (const i of rows) groups.get(String(value("hardware", i))).push(i);
  const series = [];
  for (const [name, all] of groups) {
    if (!all.length) continue;
    const own = frontierOf(all), points = state.own ? own : all;
    series.push({ ...data.styles[name], name, ids: points, x: points.map(i => x[i]), y: points.map(i => y[i]),
      line: { x: own.map(i => x[i]), y: own.map(i => y[i]) },
      size: points.map(i => value("meets_slo", i) ? 4.5 : 2.8), alpha: points.map(i => value("meets_slo", i) ? 1 : 0.45) });
  }
  const best = frontierOf(rows);
  series.reverse();
  series.push({ name: "frontier of all shown", colour: "#000", symbol: "circle", open: true, size: 7, x: best.map(i => x[i]), y: best.map(i => y[i]),
    spans: state.bars ? best.map(interval) : null });
  const limit = data.slo[view.interval || view.x];
  chart.set(series, { x: { title: view.x_title, log: true }, y: { title: view.y_title, log: true },
    limits: limit ? [{ x: view.inverse ? 1000 / limit : limit, text: "SLO" }] : [] });
  document.getElementById("count").textContent =
    `${rows.length.toLocaleString("en")} of ${data.rows.toLocaleString("en")} points, ${best.length} on the frontier. ${view.read}`;
  compare(rows);
}

// The deployment under the pointer.
const partsOf = (i, parts) => parts.map(([name, title, colour]) => [title, value(name, i) || 0, colour]);
function show(i) {
  const inputs = data.inputs.map(name => [label(name), number(value(name, i))]).filter(([, v]) => v !== "–");
  const figures = data.figures.map(({ name, title }) => {
    const low = value(name + "_p10", i), high = value(name + "_p90", i);
    return [title, number(value(name, i)) + (low === null ? "" : ` (${number(low)} to ${number(high)})`)];
  });
  const memory = partsOf(i, data.memory), step = partsOf(i, data.step);
  const sum = parts => parts.reduce((total, [, v]) => total + v, 0);
  const content = [
    element("div", state.pinned === null ? "click a point to keep it here" : "kept; click the point again to let go", "hint"),
    element("h2", `${value("gpus", i)} × ${value("hardware", i)}`),
    tableOf(figures), element("h3", "Deployment and load"), tableOf(inputs),
    element("h3", `Memory per GPU, ${number(sum(memory))} GiB used`), stackedBar(memory, sum(memory) || 1, "GiB"), keyOf(memory, "GiB"),
    element("h3", `One decode step, ${number(sum(step))} ms`), stackedBar(step, sum(step) || 1, "ms"), keyOf(step, "ms"),
  ];
  const prices = costs(i);
  if (prices.length) content.push(element("h3", "$ per M tokens, by price book"), tableOf(prices.map(([book, usd]) => [book, number(usd)])));
  content.push(element("h3", "Run it"), element("code", `servesweep export ${data.folder} --row ${value("row", i)}`));
  panel.replaceChildren(...content);
}
function costs(i) {
  const usd = value("usd_per_m_total", i), paid = value("usd_per_gpu_hour", i);
  if (usd === null || !paid) return [];
  return data.books.map(b => [`${b.name} (${b.tier})`, b.usd[value("hardware", i)] ? usd * b.usd[value("hardware", i)] / paid : null]);
}

// The cheapest of what is shown that meets the SLO, accelerator by accelerator.
const COMPARED = 10;
function compare(rows) {
  const cheapest = new Map();
  for (const i of rows) {
    const usd = value("usd_per_m_total", i);
    if (usd === null || !value("meets_slo", i)) continue;
    const name = value("hardware", i), other = cheapest.get(name);
    if (other === undefined || usd < value("usd_per_m_total", other)) cheapest.set(name, i);
  }
  const best = [...cheapest.values()].sort((a, b) => value("usd_per_m_total", a) - value("usd_per_m_total", b)).slice(0, COMPARED);
  const place = document.getElementById("compare");
  if (!best.length) { place.replaceChildren(element("p", "Nothing that is shown has a price and meets the SLO.")); return; }
  const named = i => `${value("gpus", i)} × ${value("hardware", i)}` + data.design.filter(n => n !== "hardware" && n !== "concurrency").map(n => " " + number(value(n, i))).join("");
  const rowsOf = (parts, unit) => {
    const sums = best.map(i => partsOf(i, parts).reduce((t, [, v]) => t + v, 0)), longest = Math.max(...sums);
    return element("div", best.flatMap((i, k) => [element("div", named(i)), stackedBar(partsOf(i, parts), longest, unit), element("div", `${number(sums[k])} ${unit}`, "n")]), "bars");
  };
  const longest = Math.max(...best.map(i => value("joules_per_output_token", i) || 0));
  const energy = element("div", best.flatMap(i => [element("div", named(i)), stackedBar([["energy", value("joules_per_output_token", i), "#0072B2"]], longest || 1, "J"),
    element("div", `${number(value("joules_per_output_token", i))} J, ${number(value("output_tok_s_per_mw", i))} tok/s/MW`, "n")]), "bars");
  const books = element("table", [element("tr", ["deployment", ...data.books.map(b => b.name)].map(t => element("th", t))),
    ...best.map(i => element("tr", [named(i), ...costs(i).map(([, usd]) => number(usd))].map((t, k) => element("td", t, k ? "n" : ""))))]);
  const keys = parts => keyOf(parts.map(([, title, colour]) => [title, undefined, colour]), "");
  place.replaceChildren(
    element("h3", "One decode step"), keys(data.step), rowsOf(data.step, "ms"),
    element("h3", "Memory per GPU"), keys(data.memory), rowsOf(data.memory, "GiB"),
    element("h3", "Facility energy per output token"), energy,
    element("h3", "$ per M tokens, by price book"), element("div", [books], "wide"));
}
draw();
