// The table of problems: search, classes, sorting; rows are added as the reader comes near the end.
// With several runs, the reader chooses the comparison that is shown; all are on the same problems.
let problems = about.problems;
let runs = about.runs;
let shown = about.comparisons ? about.comparisons.length - 1 : 0;
let significant = new Set(problems.sure);
let heldRows = new Set(problems.held);
const total = problems.problem.length;
const drawnOf = (row, run) => (Array.isArray(problems.drawn[run]) ? problems.drawn[run][row] : problems.drawn[run]);
const rateOf = (row, run) => problems.correct[run][row] / Math.max(drawnOf(row, run), 1);
const CHUNK = 60;
const ORDER = { S: 0, E: 1, U: 2, P: 3, O: 4 };
const state = { words: "", classes: new Set("PESOU"), key: "class", down: false, rows: [], shown: 0 };
const haystack = problems.problem.map((name, row) =>
  [name, problems.text[row], problems.benchmark ? problems.benchmark[row] : ""].join("\n").toLowerCase(),
);

const byEvidence = (a, b) =>
  Number(significant.has(b)) - Number(significant.has(a)) || (problems.p[a] ?? 2) - (problems.p[b] ?? 2) || a - b;
const SORTS = {
  class: (a, b) => ORDER[problems.class[a]] - ORDER[problems.class[b]] || byEvidence(a, b),
  problem: (a, b) => problems.problem[a].localeCompare(problems.problem[b], "en", { numeric: true }),
  benchmark: (a, b) => problems.benchmark[a].localeCompare(problems.benchmark[b]) || a - b,
  before: (a, b) => rateOf(a, 0) - rateOf(b, 0) || a - b,
  after: (a, b) => rateOf(a, 1) - rateOf(b, 1) || a - b,
  p: byEvidence,
};

function columns() {
  const base = [["class", "class", "col-class"], ["problem", "problem", "col-problem"], ["text", "question", "col-text"]];
  const bench = problems.benchmark ? [["benchmark", "benchmark", "col-benchmark"]] : [];
  const counts = [["before", runs[0], "col-n"], ["after", runs[1], "col-n"]];
  return [...base, ...bench, ...counts, ["p", "p (rate changed)", "col-p"]];
}

function head() {
  const cells = columns().map(([key, title, size]) => {
    if (!(key in SORTS)) return element("th", { scope: "col", class: size }, title);
    const sorted = state.key === key ? (state.down ? "descending" : "ascending") : "none";
    const button = element("button", { type: "button", "data-sort": key, onclick: () => sortBy(key) }, title);
    return element("th", { scope: "col", class: size, "aria-sort": sorted }, button);
  });
  document.querySelector("#table thead").replaceChildren(element("tr", {}, cells));
}

function sortBy(key) {
  state.down = state.key === key ? !state.down : key === "before" || key === "after";
  state.key = key;
  head();
  document.querySelector(`[data-sort="${key}"]`).focus();
  list();
}

function cell(key, row) {
  const name = problems.class[row];
  if (key === "class") return element("td", { class: `mark ${classOf(name)}` }, `${name} ${CLASS_WORDS[name]}`, significant.has(row) ? " ●" : "");
  if (key === "problem") return element("td", {}, element("button", { type: "button", class: "open" }, element("bdi", {}, problems.problem[row])));
  if (key === "text") return element("td", { class: "text" }, element("bdi", {}, beginning(problems.text[row])));
  if (key === "benchmark") return element("td", {}, problems.benchmark[row]);
  if (key === "p") return element("td", { class: "n" }, problems.p[row] === null ? "–" : String(problems.p[row]));
  const run = key === "before" ? 0 : 1;
  return element("td", { class: "n" }, counts(row, run));
}

const beginning = (text) => (text.length > 140 ? `${text.slice(0, 139)}…` : text);

// Correct samples of a run, of all it has of the problem: these decide the class.
const counts = (row, run) => `${number(problems.correct[run][row])} of ${number(drawnOf(row, run))}`;

function addRows() {
  const body = document.querySelector("#table tbody");
  const next = state.rows.slice(state.shown, state.shown + CHUNK);
  body.append(...next.map((row) => element("tr", { "data-row": row }, columns().map(([key]) => cell(key, row)))));
  state.shown += next.length;
  const rest = state.rows.length - state.shown;
  document.getElementById("more").replaceChildren(
    ...(rest > 0 ? [element("button", { type: "button", onclick: addRows }, `${plural(rest, "problem")} more`)] : []),
  );
}

function list() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = (row) => state.classes.has(problems.class[row]) && words.every((word) => haystack[row].includes(word));
  state.rows = [...Array(total).keys()].filter(wanted);
  const sort = SORTS[state.key];
  state.rows.sort(state.down ? (a, b) => sort(b, a) : sort);
  state.shown = 0;
  document.querySelector("#table tbody").replaceChildren();
  document.getElementById("count").textContent = `${number(state.rows.length)} of ${plural(total, "problem")}${significant.size ? "; ● significantly lost or gained (FDR 5%)" : ""}`;
  addRows();
}

function classBoxes() {
  const labels = [];
  for (const name of "SEPOU") {
    const every = [...problems.class].filter((letter) => letter === name).length;
    if (!every) continue;
    const tick = element("input", { type: "checkbox", checked: state.classes.has(name), "data-class": name });
    tick.addEventListener("change", () => {
      tick.checked ? state.classes.add(name) : state.classes.delete(name);
      list();
    });
    labels.push(element("label", { class: classOf(name) }, tick, " ", element("b", {}, name), ` ${CLASS_WORDS[name]} (${number(every)})`));
  }
  const box = document.getElementById("classes");
  box.replaceChildren(box.querySelector("legend"), ...labels);
}

function showComparison(number) {
  shown = number;
  const chosen = about.comparisons[number];
  problems = { ...about.problems, ...chosen.problems };
  runs = chosen.runs;
  significant = new Set(problems.sure);
  heldRows = new Set(problems.held);
  classBoxes();
  head();
  list();
  drawAll(); // figures that were hidden until now
}

function startTable() {
  classBoxes();
  for (const choice of document.querySelectorAll(".selector input")) {
    choice.addEventListener("change", () => showComparison(Number(choice.value)));
  }
  let waiting = 0;
  document.getElementById("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.words = event.target.value;
      list();
    }, 120);
  });
  document.querySelector("#table tbody").addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line) openProblem(Number(line.dataset.row));
  });
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && state.shown < state.rows.length) addRows();
  }, { rootMargin: "400px" }).observe(document.getElementById("more"));
  head();
  list();
}
