// What every report's script uses: the data, figures as text, stacked bars.
const data = JSON.parse(document.getElementById("data").textContent);

function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(2);
  const text = Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3));
  return text.toLocaleString("en", { maximumFractionDigits: 6 });
}
// Text goes in as text, never as markup.
function element(tag, content, className) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (Array.isArray(content)) made.append(...content);
  else if (content !== undefined && content !== null) made.textContent = content;
  return made;
}
function tableOf(rows) {
  return element("table", rows.map(cells => element("tr", cells.map((cell, i) => element("td", cell, i ? "n" : "")))));
}
// Parts as [name, value, colour]; `whole` is the length that fills the bar.
function stackedBar(parts, whole, unit) {
  return element("div", parts.filter(([, value]) => value > 0).map(([name, value, colour]) => {
    const piece = element("span");
    piece.style.cssText = `width:${100 * value / whole}%;background:${colour}`;
    piece.title = `${name}: ${number(value)} ${unit}`;
    return piece;
  }), "bar");
}
function keyOf(parts, unit) {
  return element("div", parts.filter(([, value]) => value === undefined || value > 0).map(([name, value, colour]) => {
    const swatch = element("i");
    swatch.style.background = colour;
    return element("span", [swatch, value === undefined ? name : `${name} ${number(value)}${unit ? " " + unit : ""}`]);
  }), "key");
}
