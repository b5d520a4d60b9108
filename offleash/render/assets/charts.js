// Charts are drawn one after the other, in short tasks, so that the page can be scrolled and searched meanwhile.
const charts = [];

// Figures name three colours of the page by placeholders, since they are drawn on a light or a dark background.
const STAND_INS = { "#010101": "--ink", "#020202": "--quiet", "#030303": "--line" };

function coloured(text) {
  const style = getComputedStyle(document.documentElement);
  // only a whole string is a colour: a problem may be called anything
  return text.replace(/"#(?:010101|020202|030303)"/g, (match) => `"${style.getPropertyValue(STAND_INS[match.slice(1, -1)]).trim()}"`);
}

// All data are embedded in the page: Vega loads nothing and follows no link.
const refuse = () => Promise.reject(new Error("this page loads no external data"));
const LOADER = { load: refuse, sanitize: refuse, http: refuse, file: refuse };

// The tooltip: fields and titles that a layer of the figure lists, shown as text for the mark under the pointer.
const tip = element("table", { id: "tip", role: "tooltip", hidden: true });

function tooltipHandler(tips) {
  return (handler, event, item, datum) => {
    const fields = datum && tips.find((layer) => layer.every(([field]) => field in datum));
    tip.hidden = !fields;
    if (!fields) return;
    const format = (value) => (typeof value === "number" ? value.toLocaleString("en-US", { maximumSignificantDigits: 5 }) : value);
    tip.replaceChildren(...fields.filter(([field]) => datum[field] !== "").map(([field, title]) =>
      element("tr", {}, element("th", { scope: "row" }, title), element("td", {}, element("bdi", {}, format(datum[field])))),
    ));
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY + 14 + height < innerHeight ? event.clientY + 14 : Math.max(4, event.clientY - height - 10)}px`;
  };
}

async function draw(chart) {
  const spec = JSON.parse(coloured(document.getElementById(chart.place.dataset.spec).textContent));
  chart.width = chart.place.getBoundingClientRect().width;
  await pause();
  const options = { mode: "vega", ast: true, actions: false, renderer: chart.place.dataset.renderer, tooltip: tooltipHandler(spec.usermeta.tips), loader: LOADER };
  const result = await vegaEmbed(chart.place, spec, options);
  if (chart.view) chart.view.finalize();
  chart.view = result.view;
  chart.place.view = result.view; // for debugging in the browser console
  chart.place.dataset.drawn = "yes";
  const figure = chart.place.closest("figure").dataset.figure;
  result.view.addEventListener("click", (event, item) => {
    const row = item?.datum?.row;
    if (figure === "plane" && Number.isInteger(row)) openProblem(row);
  });
}

// A figure of a comparison that is not chosen has no width; it is drawn when it is shown.
const waiting = (chart) => chart.stale && chart.place.offsetParent !== null;

let drawing = false;
async function drawAll() {
  if (drawing) return;
  drawing = true;
  document.documentElement.dataset.charts = "drawing";
  for (let next = charts.find(waiting); next; next = charts.find(waiting)) {
    next.stale = false;
    try {
      await draw(next);
    } catch (error) {
      next.place.textContent = `This figure could not be drawn: ${error.message}`;
      console.error(error);
    }
    await pause();
  }
  drawing = false;
  document.documentElement.dataset.charts = "drawn";
}

function redraw(which = () => true) {
  for (const chart of charts) if (which(chart)) chart.stale = true;
  drawAll();
}

function startCharts() {
  document.body.append(tip);
  for (const place of document.querySelectorAll(".chart")) charts.push({ place, stale: true, view: null });
  themeListeners.push(() => redraw());
  let resized = 0;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => redraw((chart) => chart.place.offsetParent !== null && Math.abs(chart.place.getBoundingClientRect().width - chart.width) > 4), 200);
  });
  redraw();
}
