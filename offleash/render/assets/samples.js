// The samples of one run of a problem: folded, and where the page is served, all of them, a few at a time.
const PAGE_OF_SAMPLES = 20;

async function fetchJson(path, parameters) {
  const which = about.comparisons ? { ...parameters, comparison: shown } : parameters;
  const response = await fetch(`/api/${path}?${new URLSearchParams(which)}`);
  const body = await response.json();
  if (!response.ok) throw new Error(body.error || `the server returned ${response.status}`);
  return body;
}

function sampleText(sample, row, run) {
  if (sample.head === null) return element("p", { class: "facts-line" }, "The run has no text for this sample.");
  const box = element("pre", { class: "text", dir: "auto", tabindex: "0" }, sample.head);
  const hidden = sample.letters - [...sample.head].length - (about.served ? 0 : [...sample.tail].length);
  if (hidden <= 0) return box;
  if (!about.served) {
    box.append(element("span", { class: "left-out" }, `… ${plural(hidden, "character")} left out; offleash view shows them …`), visible(sample.tail));
    return box;
  }
  let start = [...sample.head].length;
  const button = element("button", { type: "button" }, `${plural(hidden, "character")} more`);
  button.addEventListener("click", async () => {
    button.disabled = true; // a second click would fetch the same text again
    try {
      const part = await fetchJson("text", { row, run, index: sample.index, start });
      box.append(visible(part.text));
      start += [...part.text].length;
      if (start >= part.letters || !part.text) button.remove();
      else button.textContent = `${plural(part.letters - start, "character")} more`;
    } catch (error) {
      button.textContent = visible(`Could not be loaded: ${error.message}. Try again`);
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
      sample.step ? `extraction step: ${sample.step}` : null,
      sample.reason ? `verifier: ${sample.reason}` : null,
    ].filter(Boolean);
    box.append(element("p", { class: "facts-line" }, facts.join(" · ")), sampleText(sample, row, run));
  });
  return box;
}

// A list that fetches more from the server when its end comes into view; a button does the same.
function streamedSamples(row, run, kinds) {
  const place = element("div", { class: "stream" });
  const status = element("span", { class: "facts-line" });
  const button = element("button", { type: "button" }, "more");
  const end = element("p", {}, status, " ", button);
  const state = { verdict: "all", start: 0, request: 0, busy: false, near: false };
  async function more() {
    if (state.busy || button.hidden) return;
    state.busy = true;
    const request = state.request;
    try {
      const batch = await fetchJson("samples", { row, run, verdict: state.verdict, start: state.start, size: PAGE_OF_SAMPLES });
      if (request !== state.request) return; // another verdict was chosen meanwhile
      place.append(...batch.samples.map((sample) => sampleBox(sample, row, run)));
      state.start += batch.samples.length;
      button.hidden = !batch.samples.length || state.start >= batch.total;
      status.textContent = button.hidden ? `End of list: ${plural(batch.total, "sample")}.` : `${number(state.start)} of ${plural(batch.total, "sample")}`;
    } catch (error) {
      if (request !== state.request) return;
      status.textContent = visible(`Could not be loaded: ${error.message}.`);
      state.near = false;
    }
    state.busy = false;
    await pause();
    if (state.near && request === state.request) more();
  }
  const buttons = ["all", ...Object.keys(kinds)].map((name) =>
    element("button", { type: "button", "data-verdict": name, "aria-pressed": String(name === "all") }, name === "all" ? "all" : `${name} (${number(kinds[name])})`),
  );
  for (const choice of buttons) {
    choice.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === choice)));
      Object.assign(state, { verdict: choice.dataset.verdict, start: 0, request: state.request + 1, busy: false });
      place.replaceChildren();
      button.hidden = false;
      more();
    });
  }
  button.addEventListener("click", more);
  new IntersectionObserver((entries) => {
    state.near = entries[entries.length - 1].isIntersecting;
    if (state.near) more();
  }, { root: document.getElementById("problem-body"), rootMargin: "300px" }).observe(end);
  return [element("div", { class: "kinds", role: "group", "aria-label": "Verdicts shown" }, buttons), place, end];
}

function embeddedSamples(samples, row, run) {
  if (!samples.length) return [element("p", { class: "facts-line" }, "No samples are stored.")];
  return samples.map((sample) => sampleBox(sample, row, run));
}
