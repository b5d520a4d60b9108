// Text that a model wrote goes into the page by textContent alone; what cannot be seen is made visible.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u007f-\u009f]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f]/g;

function visible(text) {
  return text
    .replace(CONTROL, (letter) => String.fromCharCode(0x2400 + letter.charCodeAt(0)))
    .replace(BIDI, (letter) => `[U+${letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

// An element with attributes and children; children are elements or texts, never markup.
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : visible(String(child)));
  }
  return node;
}

const read = (id) => {
  const block = document.getElementById(id);
  return block ? JSON.parse(block.textContent) : null;
};
const number = (value) => value.toLocaleString("en-US");
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
const pause = () => new Promise((resume) => setTimeout(resume, 0));
const about = read("about");
const CLASS_WORDS = { P: "kept", E: "gained", S: "lost", O: "neither", U: "undetermined" };
const classOf = (name) => `class-${name}`;
