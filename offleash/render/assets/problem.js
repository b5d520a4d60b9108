// One problem, side by side: what was asked, what each run answered, and the samples themselves.
const dialog = document.getElementById("problem");
let current = -1;
let opener = null; // what had the focus before

function answerTable(side) {
  if (!side.answers.length) return null;
  const lines = side.answers.map((one) =>
    element("tr", {},
      element("td", {}, one.answer === null ? element("i", {}, "no answer found") : element("bdi", {}, one.answer)),
      element("td", { class: `verdict-${one.verdict}` }, one.verdict),
      element("td", {}, number(one.count)),
    ),
  );
  const more = side.answers_left_out ? element("caption", {}, `The ${side.answers.length} most frequent answers; ${number(side.answers_left_out)} more are not listed.`) : element("caption", {}, "Answers");
  const names = element("thead", {}, element("tr", {}, ["answer", "verdict", "samples"].map((name) => element("th", { scope: "col" }, name))));
  return element("table", { class: "answers" }, more, names, element("tbody", {}, lines));
}

function side(found, row, run) {
  const right = element("span", { class: "facts-line" }, `correct: ${counts(row, run)}`);
  const title = element("h3", {}, element("bdi", {}, about.runs[run]), right);
  const box = element("section", { class: "side", "data-run": run }, title);
  if (!found) return box;
  const table = answerTable(found);
  if (table) box.append(table);
  box.append(element("h4", {}, "Samples"));
  box.append(...(about.served ? streamed(row, run, found.kinds) : heldSamples(found.samples, row, run)));
  return box;
}

function asked(document_, row) {
  const text = document_ ? document_.question : problems.text[row];
  const parts = [];
  if (text) parts.push(element("h3", {}, "Question"), element("pre", { class: "text", dir: "auto", tabindex: "0" }, text));
  if (document_ && document_.gold !== null && document_.gold !== undefined) parts.push(element("p", {}, "Gold answer: ", element("bdi", { class: "answer" }, document_.gold)));
  return parts;
}

function evidence(row) {
  const name = problems.class[row];
  const p = problems.p[row];
  const said = [
    p === null ? null : `p = ${p} that chance alone moves the rate so far (two-sided Fisher test of this problem alone)`,
    sure.has(row) ? "on the list of sure changes (5% false discoveries)" : null,
  ].filter(Boolean);
  return element("p", {}, element("b", { class: `mark ${classOf(name)}` }, `${name} ${CLASS_WORDS[name]}`), said.length ? `: ${said.join("; ")}.` : ".");
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
  let found = null;
  try {
    found = about.served ? await ask("problem", { row }) : read(`problem-${row}`);
  } catch (error) {
    body.append(element("p", {}, `Could not be read: ${error.message}`));
  }
  if (row !== current) return;
  body.append(...asked(found, row));
  if (!found && !about.served && heldRows.size) body.append(element("p", { class: "left-out" }, "This page does not include the samples of this problem; offleash view shows them."));
  if (!found && !heldRows.size) body.append(element("p", { class: "left-out" }, "These runs have counts only: there is no sample to show."));
  body.append(element("div", { class: "sides" }, [0, 1].map((run) => side(found && found.runs[run], row, run))));
  body.dataset.row = row;
  body.scrollTop = 0;
}

function walk(step) {
  const place = state.rows.indexOf(current) + step;
  if (place >= 0 && place < state.rows.length) openProblem(state.rows[place]);
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
    const place = opener?.classList.contains("open") && line ? line : opener; // walking on moves the place in the table
    if (place?.isConnected) place.focus();
  });
}
