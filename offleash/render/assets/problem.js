// One problem: its question, and side by side what each run answered and the samples themselves.
const dialog = document.getElementById("problem");
let current = -1;
let opener = null; // what had the focus before

function answerTable(side) {
  if (!side.answers.length) return null;
  const lines = side.answers.map((answer) =>
    element("tr", {},
      element("td", {}, answer.answer === null ? element("i", {}, "no answer found") : element("bdi", {}, answer.answer)),
      element("td", { class: `verdict-${answer.verdict}` }, answer.verdict),
      element("td", {}, number(answer.count)),
    ),
  );
  const more = side.answers_left_out ? element("caption", {}, `The ${side.answers.length} most frequent answers; ${number(side.answers_left_out)} more are not listed.`) : element("caption", {}, "Answers");
  const names = element("thead", {}, element("tr", {}, ["answer", "verdict", "samples"].map((name) => element("th", { scope: "col" }, name))));
  return element("table", { class: "answers" }, more, names, element("tbody", {}, lines));
}

function side(runData, row, run) {
  const correct = element("span", { class: "facts-line" }, `correct: ${counts(row, run)}`);
  const title = element("h3", {}, element("bdi", {}, runs[run]), correct);
  const box = element("section", { class: "side", "data-run": run }, title);
  if (!runData) return box;
  const table = answerTable(runData);
  if (table) box.append(table);
  box.append(element("h4", {}, "Samples"));
  box.append(...(about.served ? streamedSamples(row, run, runData.kinds) : embeddedSamples(runData.samples, row, run)));
  return box;
}

function question(detail, row) {
  const text = detail ? detail.question : problems.text[row];
  const parts = [];
  if (text) parts.push(element("h3", {}, "Question"), element("pre", { class: "text", dir: "auto", tabindex: "0" }, text));
  if (detail && detail.gold !== null && detail.gold !== undefined) parts.push(element("p", {}, "Gold answer: ", element("bdi", { class: "answer" }, detail.gold)));
  return parts;
}

function evidence(row) {
  const name = problems.class[row];
  const p = problems.p[row];
  const facts = [
    p === null ? null : `p = ${p} if the rate did not change (two-sided Fisher test of this problem alone)`,
    significant.has(row) ? "significantly lost or gained (FDR 5%)" : null,
  ].filter(Boolean);
  return element("p", {}, element("b", { class: `mark ${classOf(name)}` }, `${name} ${CLASS_WORDS[name]}`), facts.length ? `: ${facts.join("; ")}.` : ".");
}

async function openProblem(row) {
  current = row;
  document.getElementById("problem-title").replaceChildren(element("bdi", {}, problems.problem[row]));
  const body = document.getElementById("problem-body");
  body.replaceChildren(evidence(row));
  const place = state.rows.indexOf(row);
  document.getElementById("previous").disabled = place <= 0;
  document.getElementById("next").disabled = place < 0 || place >= state.rows.length - 1;
  if (!dialog.open) {
    opener = document.activeElement;
    dialog.showModal();
  }
  document.getElementById("problem-title").focus();
  let detail = null;
  try {
    detail = about.served ? await fetchJson("problem", { row }) : read(`problem${about.comparisons ? about.comparisons[shown].suffix : ""}-${row}`);
  } catch (error) {
    body.append(element("p", {}, `Could not be loaded: ${error.message}`));
  }
  if (row !== current) return;
  body.append(...question(detail, row));
  if (!detail && !about.served && heldRows.size) body.append(element("p", { class: "left-out" }, "This page does not include the samples of this problem; offleash view shows them."));
  if (!detail && !heldRows.size) body.append(element("p", { class: "left-out" }, "These runs have counts only, so there are no samples to show."));
  body.append(element("div", { class: "sides" }, [0, 1].map((run) => side(detail && detail.runs[run], row, run))));
  body.dataset.row = row;
  body.scrollTop = 0;
}

function walk(step) {
  const place = state.rows.indexOf(current) + step;
  if (place >= 0 && place < state.rows.length) openProblem(state.rows[place]);
}

// The address may name a problem: #problem=12 is the row of the table, as `offleash view --problem` writes it.
function openFragment() {
  const row = Number(/^#problem=(\d{1,9})$/.exec(location.hash)?.[1] ?? -1);
  if (row >= 0 && row < total) openProblem(row);
}

function startProblem() {
  document.getElementById("close").addEventListener("click", () => dialog.close());
  document.getElementById("previous").addEventListener("click", () => walk(-1));
  document.getElementById("next").addEventListener("click", () => walk(1));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.closest("pre, input")) return;
    if (event.key === "ArrowLeft") walk(-1);
    if (event.key === "ArrowRight") walk(1);
  });
  dialog.addEventListener("close", () => {
    const line = document.querySelector(`#table tr[data-row="${current}"] .open`);
    const place = opener?.classList.contains("open") && line ? line : opener; // the reader may have moved on to another problem
    if (place?.isConnected) place.focus();
  });
  window.addEventListener("hashchange", openFragment);
  openFragment();
}
