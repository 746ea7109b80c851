// A plot of points and lines on a canvas: quick at tens of thousands of points, without a library.
// Series: { name, colour, symbol, x, y, ids, line: bool, size: number | array, alpha: number | array, spans: [[low, high] | null], group }.
const MARGIN = { left: 72, right: 14, top: 12, bottom: 48 };
const REACH_PX = 16, SPAN_PX = 10;
const SHAPES = {
  circle: (c, r) => c.arc(0, 0, r, 0, 7),
  square: (c, r) => c.rect(-0.88 * r, -0.88 * r, 1.76 * r, 1.76 * r),
  "triangle-up": (c, r) => polygon(c, r * 1.15, 3, -90),
  "triangle-down": (c, r) => polygon(c, r * 1.15, 3, 90),
  "triangle-left": (c, r) => polygon(c, r * 1.15, 3, 180),
  "triangle-right": (c, r) => polygon(c, r * 1.15, 3, 0),
  diamond: (c, r) => polygon(c, r * 1.15, 4, 0),
  "diamond-tall": (c, r) => { c.moveTo(0, -1.4 * r); c.lineTo(0.7 * r, 0); c.lineTo(0, 1.4 * r); c.lineTo(-0.7 * r, 0); c.closePath(); },
  hexagon: (c, r) => polygon(c, r * 1.05, 6, 0),
  star: (c, r) => { for (let k = 0; k < 10; k++) { const a = (k * 36 - 90) * Math.PI / 180, q = k % 2 ? 0.5 * r : 1.3 * r; c.lineTo(q * Math.cos(a), q * Math.sin(a)); } c.closePath(); },
  cross: (c, r) => { c.rect(-1.1 * r, -0.38 * r, 2.2 * r, 0.76 * r); c.rect(-0.38 * r, -1.1 * r, 0.76 * r, 2.2 * r); },
  x: (c, r) => { c.rotate(Math.PI / 4); SHAPES.cross(c, r); c.rotate(-Math.PI / 4); },
};
function polygon(c, r, corners, degrees) {
  for (let k = 0; k < corners; k++) {
    const a = (degrees + k * 360 / corners) * Math.PI / 180;
    c.lineTo(r * Math.cos(a), r * Math.sin(a));
  }
  c.closePath();
}

class Chart {
  constructor(place, { point = () => {}, click = () => {}, tip = null } = {}) {
    this.place = place;
    this.events = { point, click, tip };
    this.series = [];
    this.hidden = new Set();
    this.zoomed = null;
    this.canvas = element("canvas");
    this.cover = element("canvas");
    this.box = element("div", [this.canvas, this.cover], "canvases");
    this.legend = element("div", null, "legend");
    this.tip = element("div", null, "tip");
    this.box.append(this.tip);
    place.replaceChildren(this.box, this.legend);
    place.classList.add("chart");
    this.cover.addEventListener("mousemove", event => this.moved(event));
    this.cover.addEventListener("mouseleave", () => this.near(null));
    this.cover.addEventListener("mousedown", event => { this.from = this.at(event); });
    this.cover.addEventListener("mouseup", event => this.released(event));
    this.cover.addEventListener("dblclick", () => { this.zoomed = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // axes: { x: { title, log }, y: { title, log }, limits: [{ x | y, text }] }
  set(series, axes, keepZoom = false) {
    this.series = series;
    this.axes = axes;
    if (!keepZoom) this.zoomed = null;
    this.drawLegend();
    this.draw();
  }

  visible() { return this.series.filter(s => !this.hidden.has(s.name)); }

  drawLegend() {
    // The last series is drawn on top and named first.
    this.legend.replaceChildren(...this.series.filter(s => !s.unlisted).reverse().map(s => {
      const swatch = element("canvas");
      swatch.width = swatch.height = 28;
      swatch.className = "swatch";
      const c = swatch.getContext("2d");
      c.translate(14, 14);
      marker(c, s, 8.5, 1);
      const item = element("div", [swatch, s.name], "item");
      item.classList.toggle("off", this.hidden.has(s.name));
      item.title = "click: hide or show; twice: alone";
      item.addEventListener("click", event => this.toggle(s.name, event.detail > 1));
      return item;
    }));
  }

  toggle(name, alone) {
    if (alone) {
      const others = this.series.map(s => s.name).filter(other => other !== name);
      const isAlone = others.every(other => this.hidden.has(other));
      this.hidden = new Set(isAlone ? [] : others);
    } else if (!this.hidden.delete(name)) this.hidden.add(name);
    this.drawLegend();
    this.draw();
  }

  // Axes.
  extent(axis) {
    if (this.zoomed) return this.zoomed[axis];
    let low = Infinity, high = -Infinity;
    for (const s of this.visible()) for (const v of axis === "x" && s.spans ? [...s.x, ...s.spans.flatMap(span => span || [])] : s[axis]) if (v !== null && (v > 0 || !this.axes[axis].log)) { if (v < low) low = v; if (v > high) high = v; }
    if (low > high) return this.axes[axis].log ? [1, 10] : [0, 1];
    if (this.axes[axis].log) { const pad = Math.max((high / low) ** 0.04, 1.05); return [low / pad, high * pad]; }
    if (this.axes[axis].zero) low = Math.min(0, low);
    const pad = 0.04 * (high - low || Math.abs(high) || 1);
    return [low === 0 && this.axes[axis].zero ? 0 : low - pad, high + pad];
  }
  scale(axis) {
    const [low, high] = this.extent(axis), log = this.axes[axis].log, f = log ? Math.log : v => v;
    const [from, to] = axis === "x" ? [MARGIN.left, this.width - MARGIN.right] : [this.height - MARGIN.bottom, MARGIN.top];
    const k = (to - from) / (f(high) - f(low) || 1), a = f(low);
    const px = v => from + k * (f(v) - a);
    px.back = p => { const v = (p - from) / k + a; return log ? Math.exp(v) : v; };
    px.range = [low, high];
    return px;
  }
  toPixels(x, y) {
    const box = this.cover.getBoundingClientRect();
    return [box.left + this.px(x), box.top + this.py(y)];
  }

  draw() {
    if (!this.axes || !this.box.clientWidth) return;
    const ratio = window.devicePixelRatio || 1;
    [this.width, this.height] = [this.box.clientWidth, this.box.clientHeight];
    for (const canvas of [this.canvas, this.cover]) {
      canvas.width = this.width * ratio;
      canvas.height = this.height * ratio;
    }
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    [this.px, this.py] = [this.scale("x"), this.scale("y")];
    this.grid(c);
    c.save();
    c.beginPath();
    c.rect(MARGIN.left, MARGIN.top, this.width - MARGIN.left - MARGIN.right, this.height - MARGIN.top - MARGIN.bottom);
    c.clip();
    this.limits(c);
    for (const s of this.visible()) if (s.line) this.line(c, s);
    for (const s of this.visible()) this.points(c, s, ratio);
    c.restore();
    this.index();
  }

  grid(c) {
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = "#444";
    c.strokeStyle = "#e4e4e4";
    c.lineWidth = 1;
    const bottom = this.height - MARGIN.bottom, right = this.width - MARGIN.right;
    c.textAlign = "center";
    for (const [v, text] of ticks(this.px.range, this.axes.x.log, this.width / 90)) {
      const x = Math.round(this.px(v)) + 0.5;
      stroke(c, x, MARGIN.top, x, bottom);
      c.fillText(text, x, bottom + 16);
    }
    c.textAlign = "right";
    for (const [v, text] of ticks(this.py.range, this.axes.y.log, this.height / 45)) {
      const y = Math.round(this.py(v)) + 0.5;
      stroke(c, MARGIN.left, y, right, y);
      c.fillText(text, MARGIN.left - 6, y + 4);
    }
    c.fillStyle = "#222";
    c.font = "13px system-ui, sans-serif";
    c.textAlign = "center";
    c.fillText(this.axes.x.title, (MARGIN.left + right) / 2, this.height - 10);
    c.save();
    c.translate(14, (MARGIN.top + bottom) / 2);
    c.rotate(-Math.PI / 2);
    c.fillText(this.axes.y.title, 0, 0);
    c.restore();
  }

  limits(c) {
    c.strokeStyle = c.fillStyle = "#555";
    c.setLineDash([6, 4]);
    c.textAlign = "left";
    for (const limit of this.axes.limits || []) {
      if (limit.x !== undefined) {
        const x = this.px(limit.x);
        stroke(c, x, MARGIN.top, x, this.height - MARGIN.bottom);
        c.fillText(limit.text, x + 4, MARGIN.top + 13);
      } else {
        const y = this.py(limit.y);
        stroke(c, MARGIN.left, y, this.width - MARGIN.right, y);
        c.fillText(limit.text, MARGIN.left + 4, y - 5);
      }
    }
    c.setLineDash([]);
  }

  line(c, s) {
    c.strokeStyle = s.colour;
    c.lineWidth = 1.5;
    c.beginPath();
    const line = s.line === true ? s : s.line;
    for (let k = 0; k < line.x.length; k++) c.lineTo(this.px(line.x[k]), this.py(line.y[k]));
    c.stroke();
  }

  points(c, s, ratio) {
    if (s.spans) {
      c.strokeStyle = "#00000088";
      c.lineWidth = 1;
      let last = -Infinity;
      s.spans.forEach((span, k) => {
        const y = this.py(s.y[k]);
        if (!span || Math.abs(y - last) < SPAN_PX) return;
        last = y;
        const [a, b] = span.map(v => this.px(v));
        stroke(c, a, y, b, y);
        stroke(c, a, y - 3, a, y + 3);
        stroke(c, b, y - 3, b, y + 3);
      });
    }
    if (s.pointless) return;
    const images = new Map();
    for (let k = 0; k < s.x.length; k++) {
      const size = s.size === undefined ? 4.5 : s.size[k] === undefined ? s.size : s.size[k];
      const alpha = s.alpha === undefined ? 1 : s.alpha[k] === undefined ? s.alpha : s.alpha[k];
      const key = size * 100 + alpha;
      if (!images.has(key)) images.set(key, sprite(s, size, alpha, ratio));
      const image = images.get(key), edge = image.width / ratio;
      c.drawImage(image, this.px(s.x[k]) - edge / 2, this.py(s.y[k]) - edge / 2, edge, edge);
    }
  }

  // The pointer.
  index() {
    this.spots = [];
    for (const s of this.visible()) if (s.ids) for (let k = 0; k < s.x.length; k++) this.spots.push([this.px(s.x[k]), this.py(s.y[k]), s, k]);
  }
  at(event) {
    const box = this.cover.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
  moved(event) {
    const [x, y] = this.at(event);
    if (this.from && event.buttons & 1) { this.frame(x, y); return; }
    let best = null, reach = REACH_PX ** 2;
    for (const spot of this.spots) {
      const d = (spot[0] - x) ** 2 + (spot[1] - y) ** 2;
      if (d < reach) { reach = d; best = spot; }
    }
    this.near(best);
  }
  clear() {
    const c = this.cover.getContext("2d"), ratio = window.devicePixelRatio || 1;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    return c;
  }
  near(spot) {
    const c = this.clear();
    this.spot = spot;
    this.cover.style.cursor = spot ? "pointer" : "crosshair";
    this.tip.style.display = spot && this.events.tip ? "block" : "none";
    if (!spot) return;
    const [x, y, s, k] = spot;
    c.strokeStyle = "#000";
    c.lineWidth = 2;
    c.beginPath();
    c.arc(x, y, 9, 0, 7);
    c.stroke();
    if (this.events.tip) {
      this.tip.replaceChildren(...this.events.tip(s.ids[k], s).map((line, n) => element(n ? "div" : "b", line)));
      const left = x > this.width * 0.6;
      this.tip.style.cssText = `display:block;top:${Math.min(y + 10, this.height - 90)}px;${left ? `right:${this.width - x + 12}px` : `left:${x + 12}px`}`;
    }
    this.events.point(s.ids[k], s);
  }
  frame(x, y) {
    const c = this.clear();
    c.fillStyle = "#0072B222";
    c.strokeStyle = "#0072B2";
    c.beginPath();
    c.rect(this.from[0], this.from[1], x - this.from[0], y - this.from[1]);
    c.fill();
    c.stroke();
    this.tip.style.display = "none";
  }
  released(event) {
    const from = this.from, [x, y] = this.at(event);
    this.from = null;
    if (from && Math.abs(x - from[0]) > 8 && Math.abs(y - from[1]) > 8) {
      const ordered = (a, b) => a < b ? [a, b] : [b, a];
      this.zoomed = { x: ordered(this.px.back(from[0]), this.px.back(x)), y: ordered(this.py.back(from[1]), this.py.back(y)) };
      this.draw();
    } else if (this.spot) this.events.click(this.spot[2].ids[this.spot[3]], this.spot[2]);
  }
}

function marker(c, s, size, alpha) {
  c.globalAlpha = alpha;
  c.beginPath();
  SHAPES[s.symbol || "circle"](c, size);
  if (s.open) { c.strokeStyle = s.colour; c.lineWidth = 1.6; c.stroke(); }
  else { c.fillStyle = s.colour; c.fill(); }
}
function sprite(s, size, alpha, ratio) {
  const image = element("canvas"), edge = Math.ceil(3.2 * size + 4);
  image.width = image.height = edge * ratio;
  const c = image.getContext("2d");
  c.scale(ratio, ratio);
  c.translate(edge / 2, edge / 2);
  marker(c, s, size, alpha);
  return image;
}
function stroke(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}
// [value, text] at round numbers, about `most` of them.
function ticks([low, high], log, most) {
  const found = [];
  if (log && high / low > 3) {
    const decades = Math.log10(high / low), steps = decades * 3 <= most ? [1, 2, 5] : [1];
    const skip = Math.ceil(decades / most);
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) if (e % skip === 0) for (const m of steps) found.push(m * 10 ** e);
  } else {
    const rough = (high - low) / Math.max(2, most), unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find(m => m * unit >= rough);
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
  }
  return found.filter(v => v >= low && v <= high).map(v => [v, Number(v.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 4 })]);
}
