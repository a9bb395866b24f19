// Draw each chart when it comes near the screen, and let the controls of a group set the parameters of its charts.
const OPTIONS = { actions: false, renderer: "svg", logLevel: 1 } // 1: errors;
const views = new Map(); // chart element -> its Vega view

function settingsOf(group) {
  const values = {};
  group.querySelectorAll("select").forEach((select) => { values[select.name] = select.value; });
  const buttons = [...group.querySelectorAll(".legend button")];
  if (buttons.length) {
    values.shown = buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.dataset.name);
  }
  return values;
}

function apply(element) {
  const view = views.get(element);
  const group = element.closest(".group");
  if (!view || !group) return;
  const known = view.getState().signals;
  for (const [name, value] of Object.entries(settingsOf(group))) {
    if (name in known) view.signal(name, value);
  }
  view.runAsync();
}

async function draw(element) {
  const spec = JSON.parse(document.getElementById(element.dataset.spec).textContent);
  const { view } = await vegaEmbed(element, spec, OPTIONS);
  views.set(element, view);
  apply(element);
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) { near.unobserve(target); draw(target); }
  }
}, { rootMargin: "800px" });

document.querySelectorAll(".chart").forEach((element) => near.observe(element));
document.querySelectorAll(".group").forEach((group) => {
  const applyAll = () => group.querySelectorAll(".chart").forEach(apply);
  group.querySelectorAll("select").forEach((select) => select.addEventListener("change", applyAll));
  group.querySelectorAll(".legend button").forEach((button) => button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    applyAll();
  }));
});
