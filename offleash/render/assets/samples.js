// The samples of one run of a problem: folded, and where the page is served, all of them, a few at a time.
const PAGE_OF_SAMPLES = 20;

async function ask(path, parameters) {
  const answer = await fetch(`/api/${path}?${new URLSearchParams(parameters)}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || `the server said ${answer.status}`);
  return found;
}

function written(sample, row, run) {
  if (sample.head === null) return element("p", { class: "facts-line" }, "The run keeps no text of this sample.");
  const box = element("pre", { class: "text", dir: "auto", tabindex: "0" }, sample.head);
  const out = sample.letters - [...sample.head].length - (about.served ? 0 : [...sample.tail].length);
  if (out <= 0) return box;
  if (!about.served) {
    box.append(element("span", { class: "left-out" }, `… ${plural(out, "letter")} left out; offleash view shows them …`), visible(sample.tail));
    return box;
  }
  let start = [...sample.head].length;
  const button = element("button", { type: "button" }, `${plural(out, "letter")} more`);
  button.addEventListener("click", async () => {
    button.disabled = true; // a second click would bring the same letters again
    try {
      const part = await ask("text", { row, run, index: sample.index, start });
      box.append(visible(part.text));
      start += [...part.text].length;
      if (start >= part.letters || !part.text) button.remove();
      else button.textContent = `${plural(part.letters - start, "letter")} more`;
    } catch (error) {
      button.textContent = visible(`Could not be read: ${error.message}. Try again`);
    }
    button.disabled = false;
  });
  return element("div", {}, box, button);
}

function sampleBox(sample, row, run) {
  const verdict = element("b", { class: `verdict-${sample.verdict}` }, sample.verdict);
  const answer = sample.answer === null ? "no answer found" : sample.answer;
  const line = element("summary", {}, `#${sample.index} `, verdict, " ", element("bdi", { class: "answer" }, answer));
  const box = element("details", { class: "sample", "data-index": sample.index }, line);
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    const facts = [
      sample.tokens === null ? null : plural(sample.tokens, "token"),
      sample.finish === "length" ? "cut at the token limit" : null,
      sample.step ? `answer read by: ${sample.step}` : null,
      sample.reason ? `verifier: ${sample.reason}` : null,
    ].filter(Boolean);
    box.append(element("p", { class: "facts-line" }, facts.join(" · ")), written(sample, row, run));
  });
  return box;
}

// A list that asks the server for more while its end is in sight; a button does the same.
function streamed(row, run, kinds) {
  const place = element("div", { class: "stream" });
  const told = element("span", { class: "facts-line" });
  const button = element("button", { type: "button" }, "more");
  const end = element("p", {}, told, " ", button);
  const state = { verdict: "all", start: 0, asked: 0, busy: false, near: false };
  async function more() {
    if (state.busy || button.hidden) return;
    state.busy = true;
    const asked = state.asked;
    try {
      const found = await ask("samples", { row, run, verdict: state.verdict, start: state.start, size: PAGE_OF_SAMPLES });
      if (asked !== state.asked) return; // another verdict was chosen meanwhile
      place.append(...found.samples.map((sample) => sampleBox(sample, row, run)));
      state.start += found.samples.length;
      button.hidden = !found.samples.length || state.start >= found.total;
      told.textContent = button.hidden ? `That is all: ${plural(found.total, "sample")}.` : `${number(state.start)} of ${plural(found.total, "sample")}`;
    } catch (error) {
      if (asked !== state.asked) return;
      told.textContent = visible(`Could not be read: ${error.message}.`);
      state.near = false;
    }
    state.busy = false;
    await pause();
    if (state.near && asked === state.asked) more();
  }
  const buttons = ["all", ...Object.keys(kinds)].map((name) =>
    element("button", { type: "button", "data-verdict": name, "aria-pressed": String(name === "all") }, name === "all" ? "all" : `${name} (${number(kinds[name])})`),
  );
  for (const one of buttons) {
    one.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === one)));
      Object.assign(state, { verdict: one.dataset.verdict, start: 0, asked: state.asked + 1, busy: false });
      place.replaceChildren();
      button.hidden = false;
      more();
    });
  }
  button.addEventListener("click", more);
  new IntersectionObserver((seen) => {
    state.near = seen[seen.length - 1].isIntersecting;
    if (state.near) more();
  }, { root: document.getElementById("problem-body"), rootMargin: "300px" }).observe(end);
  return [element("div", { class: "kinds", role: "group", "aria-label": "Verdicts shown" }, buttons), place, end];
}

function heldSamples(samples, row, run) {
  if (!samples.length) return [element("p", { class: "facts-line" }, "No sample is kept.")];
  return samples.map((sample) => sampleBox(sample, row, run));
}
