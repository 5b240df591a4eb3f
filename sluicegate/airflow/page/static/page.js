// Everything can be read without this. It follows Airflow's colours, leads out of its frame, filters lists, and keeps
// the page of a run under way up to date.
"use strict";

const parentDocument = (() => {
  try {
    return window.parent !== window ? window.parent.document : null;
  } catch {
    return null; // framed by another site, which the policy forbids
  }
})();

function followColours() {
  const own = document.documentElement;
  const airflow = parentDocument?.documentElement;
  const set = () => {
    const classes = airflow?.classList;
    const said = classes?.contains("dark") ? "dark" : classes?.contains("light") ? "light" : window.localStorage.getItem("theme");
    if (said === "dark" || said === "light") own.dataset.theme = said;
    else delete own.dataset.theme;
  };
  set();
  if (airflow) new MutationObserver(set).observe(airflow, { attributes: true, attributeFilter: ["class"] });
}
followColours();

// Airflow's frame may not lead its window elsewhere; a link in the window's own document may.
function leadOut(event) {
  const link = event.target.closest("a[data-airflow]");
  if (!link || !parentDocument || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outside = parentDocument.createElement("a");
  outside.href = link.href;
  parentDocument.body.append(outside);
  outside.click();
  outside.remove();
}

function filterRows(event) {
  const field = event.target.closest("input[data-filters]");
  if (!field) return;
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(`#${field.dataset.filters} tbody tr`)) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
}

function choose(event) {
  if (event.target.matches("select[data-sends]")) event.target.form.requestSubmit();
}

async function refresh() {
  const main = document.querySelector("main[data-live]");
  if (!main || document.hidden) return;
  try {
    const answer = await fetch(window.location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const focused = document.activeElement;
    if (next && !(focused && main.contains(focused) && focused.matches("input, select"))) main.replaceWith(next);
  } catch {
    // Airflow does not answer: the next attempt may find it
  }
}

document.addEventListener("click", leadOut);
document.addEventListener("input", filterRows);
document.addEventListener("change", choose);
window.setInterval(refresh, 5000);
