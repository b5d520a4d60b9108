// Light, dark, or as the system has it; the choice is kept where the browser lets a page keep one.
const THEMES = ["auto", "light", "dark"];
const themeListeners = [];
const system = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem("offleash-theme") || "auto";
  } catch {
    return "auto";
  }
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  button.querySelector("span").textContent = name;
  button.setAttribute("aria-label", `Colours: ${name === "auto" ? "as the system" : name}; click to change`);
  try {
    localStorage.setItem("offleash-theme", name);
  } catch {
    // a page opened from a file may not keep anything
  }
  for (const listener of themeListeners) listener();
}

function startTheme() {
  setTheme(THEMES.includes(stored()) ? stored() : "auto");
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length]);
  });
  system.addEventListener("change", () => themeListeners.forEach((listener) => listener()));
}
